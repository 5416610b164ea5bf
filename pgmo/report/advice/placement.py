"""Rules about the placement of blocks: fragmentation, blocks with two slots, several streams."""

import numpy as np

from pgmo.report.advice.facts import Facts, Hint
from pgmo.units import format_bytes


def fragmented(facts: Facts) -> Hint | None:
    """Return a hint if at least 1/10 of the reserved memory and 16 MiB contain no block.

    Reserved bytes are measured or predicted. Private pools and CPU memory do not count.
    """
    seen, default = facts.explanation.fragmentation, facts.explanation.reserved.get("default")
    if facts.profile.meta.device.startswith("cpu"):
        return None  # the CPU's allocator returns each block to the system
    if seen is not None:
        framework = "CuPy" if facts.profile.meta.framework == "cupy" else "PyTorch"
        reserved, used, how = seen.peak_reserved, seen.live_then, f"{framework} reserved"
    elif default is not None:
        reserved, used, how = default.peak, default.active, "PyTorch would reserve"
    else:
        return None
    place = ""
    if seen is not None and facts.explanation.pools is not None:
        reserved, used = (
            reserved - facts.explanation.pools.reserved,
            used - facts.explanation.pools.alive,
        )
        place = " outside of private pools"
    waste = reserved - used
    if waste < max(reserved // 10, 16 * 2**20):
        return None
    other = facts.explanation.reserved.get("expandable")
    expandable = ""
    if seen is None and other is not None:
        expandable = f" (with expandable_segments:True {format_bytes(other.peak)})"
    arena = ""
    if facts.arena is not None:
        arena = f" The plan's arena takes {format_bytes(facts.arena)}."
    return Hint(
        "Fragmentation",
        f"{how} {format_bytes(reserved)}{expandable}{place} while blocks took "
        f"{format_bytes(used)}: {waste / reserved:.0%} unused.{arena} Run the script with "
        "`pgmo run`, or wrap the loop in pgmo.optimize().",
        waste,
    )


def private_pools(facts: Facts) -> Hint | None:
    """Return a hint if sharing pages would save at least 1/10 of the private pools and 16 MiB."""
    pools = facts.explanation.pools
    waste = 0 if pools is None or not pools.has_graphs else pools.reserved - pools.needed
    if pools is None or waste < max(pools.reserved // 10, 16 * 2**20):
        return None
    advice = "Capture the largest graph first: smaller graphs then fit into its blocks."
    if len(pools.pools) > 1:
        advice = (
            "Pass the same pool to all graphs that replay one after the other, and capture the "
            "largest first. If forward graphs of several layers replay before the backward graphs, "
            "capture all layers in one call of make_graphed_callables."
        )
    return Hint(
        "Private pools",
        f"{format_bytes(waste)} of {format_bytes(pools.reserved)} would be free if graphs that "
        f"replay one after the other shared pages. {advice}",
        waste,
    )


def two_slots(facts: Facts) -> Hint | None:
    """Return a hint if blocks need two slots and the plan is at least 1/50 above the max load."""
    double = facts.profile.turns == 2
    over = 0 if facts.arena is None else facts.arena - facts.explanation.peak.size
    if not double.any() or not facts.is_large(over, 0.02):
        return None
    size = facts.size(double.astype(np.int64))
    return Hint(
        "Blocks that outlive an iteration",
        f"The plan is {format_bytes(over)} above the max load. {int(double.sum())} blocks of "
        f"{format_bytes(size)} in all are still alive when the next iteration requests them "
        f"again{facts.largest(double.astype(np.int64))}, so each needs two slots. Write `del` "
        "for the names that hold them at the end of the loop's body, and call zero_grad right "
        "after optimizer.step().",
        min(over, size),
    )


def several_streams(facts: Facts) -> Hint | None:
    """Return a hint if memory that streams cannot share costs at least 1/50 of the peak."""
    if len(facts.explanation.streams) < 2:
        return None
    apart = sum(use.max_load for use in facts.explanation.streams) - facts.explanation.peak.size
    shared = sum(use.shared_size for use in facts.explanation.streams)
    if not facts.is_large(apart + shared, 0.02):
        return None
    used = ""
    if shared:
        used = f"; {format_bytes(shared)} are used on several streams and stay with the framework"
    return Hint(
        "Several streams",
        f"{len(facts.explanation.streams)} streams request memory. No stream reuses the free "
        f"blocks of another stream, which costs {format_bytes(apart)}{used}. Use fewer side "
        "streams, or allocate tensors on the stream that uses them.",
        apart + shared,
    )
