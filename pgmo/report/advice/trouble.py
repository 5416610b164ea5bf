"""Rules about problems over iterations: leaks, failures, varying sizes."""

from pgmo.report.advice.facts import Facts, Hint
from pgmo.units import format_bytes

_SCALAR = 1024
"""Maximum bytes of a block that is treated as a number, such as a loss or an accuracy."""


def leaking(facts: Facts) -> Hint | None:
    """Return a hint if blocks larger than single numbers accumulate."""
    found = [leak for leak in facts.explanation.leaks.found if leak.size > _SCALAR * leak.blocks]
    if not found:
        return None
    growth = sum(leak.growth for leak in found)
    size = sum(leak.size for leak in found)
    so_far = f" ({format_bytes(size)} so far)" if size > growth else ""
    kept = facts.explanation.kept.growing
    where = "Look for a list, a cache or a closure that keeps these tensors."
    if kept:
        where = f"Growing memory is kept by {kept[0]}."
    return Hint(
        "Memory leaks",
        f"{format_bytes(growth)} per iteration stay behind{so_far}, the largest part from "
        f"{found[0].origin}. {where} Drop them, or keep a detached copy on the CPU.",
        size,
        is_cause=True,
    )


def numbers_kept(facts: Facts) -> Hint | None:
    """Return a hint if small blocks accumulate, such as losses that are kept as tensors."""
    found = [leak for leak in facts.explanation.leaks.found if leak.size <= _SCALAR * leak.blocks]
    if not found:
        return None
    growth = sum(leak.growth for leak in found)
    return Hint(
        "A number is kept as a tensor",
        f"{format_bytes(growth)} in small blocks per iteration stay behind, the largest part from "
        f"{found[0].origin}. If it is a loss that is summed or put into a list, use loss.item() "
        "or loss.detach(): a loss that is not detached keeps its whole graph.",
        round(growth),
    )


def ran_out(facts: Facts) -> Hint | None:
    """Return a hint if a request of the trace ran out of memory."""
    if not facts.explanation.failures:
        return None
    one = facts.explanation.failures[0]
    asked = f" of {format_bytes(one.size)}" if one.size else ""
    unused = ""
    if one.reserved:
        unused = f", and {format_bytes(one.unused)} of the reserved memory held no block"
    remedy = "The origins at the peak show what holds the memory"
    if one.size and one.unused >= one.size:
        remedy = (
            "The unused memory would have sufficed in one piece: run the script with `pgmo run`"
        )
        if not facts.is_expandable:
            remedy += ", or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    return Hint(
        "Out of memory",
        f"A request{asked} from {one.origin} failed: blocks took "
        f"{format_bytes(one.live)}{unused}. {remedy}.",
        one.size or one.live,
    )


def varying_sizes(facts: Facts) -> Hint | None:
    """Return a hint if block sizes vary, or most iterations differ from the previous one."""
    drift = facts.explanation.drift
    restless = drift.compared > 1 and drift.changed > drift.compared // 2
    if not drift.varying and not restless:
        return None
    seen = []
    if drift.varying:
        seen.append(f"{drift.varying} blocks, {format_bytes(drift.varying_size)}, vary in size")
    if restless:
        seen.append(
            f"{drift.changed} of {drift.compared} iterations differ from the previous iteration"
        )
    return Hint(
        "Iterations differ",
        f"{'; '.join(seen)}. Pad or bucket batches to few lengths: more "
        "iterations then repeat, and the framework's cache finds blocks of the right size.",
        drift.varying_size,
    )
