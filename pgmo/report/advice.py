"""What would help, with figures: each rule looks at the facts and says something or nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.profile import Profile
from pgmo.report.attribution import OTHERS, Peak, alive, hold
from pgmo.report.drift import Drift
from pgmo.report.failures import Failure
from pgmo.report.fragmentation import Fragmentation
from pgmo.report.idle import find_idle
from pgmo.report.leaks import Leaks
from pgmo.report.origins import UNTAGGED
from pgmo.report.reserved import Reservation
from pgmo.report.residents import Residents
from pgmo.report.streams import StreamUse
from pgmo.units import format_bytes

_SCALAR = 1024
"""Bytes up to which a block that is kept is taken for a number: a loss, an accuracy."""

_WORKSPACE_LIFE = 3
"""Requests within which a block of a convolution is gone again if it is a workspace."""

_LOSS = ("log_softmax", "cross_entropy", "nll_loss", "softmax_backward")
"""Parts of the names of operators whose results are as large as the logits."""


@dataclass(frozen=True)
class Hint:
    """A piece of advice that applies.

    Args:
        title: a few words.
        text: what was seen, its figures, and what to do.
        bytes: that it is about; what is saved is at most this.

    Example:
        >>> Hint("Loss kept", "...", 4).bytes
        4
    """

    title: str
    text: str
    bytes: int


@dataclass(frozen=True, eq=False)
class Facts:
    """What the rules look at; see `pgmo.report.summary.Explanation` for the fields."""

    profile: Profile
    peak: Peak
    residents: Residents
    leaks: Leaks
    drift: Drift
    streams: tuple[StreamUse, ...]
    reserved: dict[str, Reservation]
    fragmentation: Fragmentation | None
    failures: tuple[Failure, ...]
    arena: int | None

    @cached_property
    def copies(self) -> NDArray[np.int64]:
        """How often each block is alive at the peak, shape (n,)."""
        return alive(self.profile, self.peak.tick)

    @property
    def before(self) -> NDArray[np.int64]:
        """How many of these copies earlier iterations than the peak's requested, shape (n,)."""
        return np.asarray(self.copies - (self.copies > 0) * self._own, np.int64)

    @property
    def _own(self) -> NDArray[np.int64]:
        tick = self.peak.tick
        return np.asarray((self.profile.start <= tick) & (tick < self.profile.end), np.int64)

    def born(self, phase: str) -> NDArray[np.bool_]:
        """Which blocks are requested in a phase, shape (n,)."""
        return self.matches(lambda row: row == phase, "phase")

    def matches(self, wanted: Callable[[str], bool], field: str) -> NDArray[np.bool_]:
        """Which blocks have a tag whose field is as wanted, shape (n,)."""
        good = np.array([wanted(getattr(tag, field)) for tag in self.profile.tags] + [False])
        return np.asarray(good[self.profile.tag], np.bool_)  # a tag of -1 is the last entry

    def size(self, copies: NDArray[np.int64]) -> int:
        """Bytes of so many copies of each block."""
        return int((self.profile.size * copies).sum())

    def share(self, size: int) -> float:
        """A part of the peak."""
        return size / self.peak.size if self.peak.size else 0.0

    def matters(self, size: int, least: float) -> bool:
        """Whether it is that part of the peak, and a hundredth of all known memory.

        Beside a large model, what an iteration needs may be next to nothing.
        """
        known = self.peak.size + self.residents.size
        return bool(self.peak.size) and self.share(size) >= least and size >= known / 100

    @property
    def is_expandable(self) -> bool:
        """Whether the trace was recorded with expandable segments."""
        trace = self.profile.trace
        if trace is None:
            return False
        told = [str(value) for value in trace.settings.values()]
        own = trace.settings.get("expandable_segments") == "True"
        return own or any("expandable_segments:True" in text for text in told)

    def largest(self, copies: NDArray[np.int64]) -> str:
        """The module or line that holds most of these copies, as " (most: NAME, 3 MiB)"."""
        for by in ("file", "module", "op"):
            for holder in hold(self.profile, copies, by, top=1):
                if holder.name not in (UNTAGGED, OTHERS):
                    return f" (most of it: {holder.name}, {format_bytes(holder.size)})"
        return ""


def advise(facts: Facts) -> tuple[Hint, ...]:
    """The hints that apply, the one about most bytes first.

    Example:
        >>> from pgmo.report.summary import explain
        >>> explain(Profile.from_columns(size=[8], start=[0], end=[1], ticks=1)).hints
        ()
    """
    hints = [hint for rule in RULES if (hint := rule(facts)) is not None]
    return tuple(sorted(hints, key=lambda hint: -hint.bytes))


def leaking(facts: Facts) -> Hint | None:
    """Applies if blocks accumulate that are more than single numbers."""
    found = [leak for leak in facts.leaks.found if leak.size > _SCALAR * leak.blocks]
    if not found:
        return None
    growth = sum(leak.growth for leak in found)
    return Hint(
        "Memory leaks",
        f"{format_bytes(growth)} stay behind in each {facts.leaks.per}, most of it from "
        f"{found[0].origin}. Look for a list, a cache or a closure that keeps these tensors, and "
        "keep a detached copy on the CPU or nothing instead.",
        round(growth),
    )


def numbers_kept(facts: Facts) -> Hint | None:
    """Applies if small blocks accumulate: losses that are summed or listed as tensors."""
    found = [leak for leak in facts.leaks.found if leak.size <= _SCALAR * leak.blocks]
    if not found:
        return None
    growth = sum(leak.growth for leak in found)
    return Hint(
        "A number is kept as a tensor",
        f"{format_bytes(growth)} in small blocks stay behind in each {facts.leaks.per}, from "
        f"{found[0].origin}. If it is a loss that is summed or put into a list, use loss.item() "
        "or loss.detach(): a loss that is not detached keeps its whole graph.",
        round(growth),
    )


def ran_out(facts: Facts) -> Hint | None:
    """Applies if a request of the trace ran out of memory."""
    if not facts.failures:
        return None
    one = facts.failures[0]
    asked = f" of {format_bytes(one.size)}" if one.size else ""
    unused = ""
    if one.reserved:
        unused = f" and {format_bytes(one.unused)} reserved in no block"
    remedy = "The other hints say what holds the memory"
    if one.size and one.unused >= one.size:
        remedy = "That would have been enough in one piece: run the script with `pgmo run`"
        if not facts.is_expandable:
            remedy += ", or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    return Hint(
        "Out of memory",
        f"A request{asked} from {one.origin} failed with {format_bytes(one.live)} in blocks"
        f"{unused}. {remedy}.",
        one.size or one.live,
    )


def fragmented(facts: Facts) -> Hint | None:
    """Applies if a tenth and 16 MiB or more of what the framework reserves holds no block."""
    seen, told = facts.fragmentation, facts.reserved.get("default")
    if facts.profile.meta.device.startswith("cpu"):
        return None  # its allocator gives each block back to the system
    if seen is not None:
        reserved, used, how = seen.peak_reserved, seen.live_then, "reserved"
    elif told is not None and told.failed is None:
        reserved, used, how = told.peak, told.active, "would reserve"
    else:
        return None
    waste = reserved - used
    if waste < max(reserved // 10, 16 * 2**20):
        return None
    other = facts.reserved.get("expandable")
    expandable = ""
    if seen is None and other is not None and other.failed is None:
        expandable = f" (with expandable_segments:True {format_bytes(other.peak)})"
    arena = ""
    if facts.arena is not None:
        arena = f" The plan puts this iteration's blocks into {format_bytes(facts.arena)}."
    return Hint(
        "Fragmentation",
        f"PyTorch {how} {format_bytes(reserved)}{expandable} while blocks took "
        f"{format_bytes(used)}: {waste / reserved:.0%} lay unused.{arena} Run the script with "
        "`pgmo run`, or wrap the loop in pgmo.optimize().",
        waste,
    )


def gradients_held(facts: Facts) -> Hint | None:
    """Applies if gradients of the iteration before take a twentieth of the peak or more."""
    held = facts.before * facts.born("backward")
    size = facts.size(held)
    if not facts.matters(size, 0.05):
        return None
    return Hint(
        "Gradients of the last iteration at the peak",
        f"{format_bytes(size)} ({facts.share(size):.0%}) of the peak are gradients of the "
        f"iteration before{facts.largest(held)}. Call optimizer.zero_grad(set_to_none=True) "
        "right after optimizer.step(), not after the next forward pass.",
        size,
    )


def held_over(facts: Facts) -> Hint | None:
    """Applies if a fiftieth of the peak or more is data of the iteration before."""
    held = facts.before * ~facts.born("backward")
    size = facts.size(held)
    if not facts.matters(size, 0.02):
        return None
    double = facts.size(held * (facts.copies > 1))
    twice = f", {format_bytes(double)} of it beside its own successor" if double else ""
    return Hint(
        "The last iteration's data at the peak",
        f"{format_bytes(size)} ({facts.share(size):.0%}) of the peak belong to the iteration before"
        f"{twice}{facts.largest(held)}: a name such as batch, output or loss holds them until it "
        "is assigned again. Write `del batch, output, loss` at the end of the loop's body.",
        size,
    )


def two_slots(facts: Facts) -> Hint | None:
    """Applies if a plan is a fiftieth above the bound and blocks outlive an iteration."""
    double = facts.profile.turns == 2
    over = 0 if facts.arena is None else facts.arena - facts.peak.size
    if not double.any() or not facts.matters(over, 0.02):
        return None
    size = facts.size(double.astype(np.int64))
    return Hint(
        "Blocks that outlive an iteration",
        f"The plan is {format_bytes(over)} above the largest load: {int(double.sum())} blocks of "
        f"{format_bytes(size)} are still alive when the next iteration requests them again"
        f"{facts.largest(double.astype(np.int64))}, and need two places each. Write `del` for the "
        "names that hold them at the end of the loop's body, and call zero_grad right after "
        "optimizer.step().",
        min(over, size),
    )


def activations(facts: Facts) -> Hint | None:
    """Applies if two fifths of the peak or more were saved for the backward pass."""
    saved = np.zeros(len(facts.profile), np.int64)
    for block in find_idle(facts.profile, facts.peak.tick, top=None):
        if block.saved:
            saved[block.row] = facts.copies[block.row]
    size = facts.size(saved)
    if not facts.matters(size, 0.4):
        return None
    return Hint(
        "Activations make the peak",
        f"{format_bytes(size)} ({facts.share(size):.0%}) of the peak were requested in the forward "
        f"pass and are freed in the backward pass{facts.largest(saved)}. Recompute them: "
        "torch.utils.checkpoint around repeated blocks, or a smaller batch with gradient "
        "accumulation.",
        size,
    )


def logits(facts: Facts) -> Hint | None:
    """Applies if a fifth of the peak or more are results of the loss over classes or words."""
    held = facts.copies * facts.matches(lambda op: any(one in op for one in _LOSS), "op")
    size = facts.size(held)
    if not facts.matters(size, 0.2):
        return None
    return Hint(
        "The loss's own tensors make the peak",
        f"{format_bytes(size)} ({facts.share(size):.0%}) of the peak are log-probabilities and "
        f"their gradients{facts.largest(held)}. Compute the loss over chunks of the batch or of "
        "the sequence, each with its own part of the last layer, or use a fused linear "
        "cross-entropy.",
        size,
    )


def optimizer_state(facts: Facts) -> Hint | None:
    """Applies if three tenths or more of all known memory are optimizer state."""
    size = sum(one.size for one in facts.residents.phases if one.name == "optimizer")
    total = facts.peak.size + facts.residents.size
    if not total or size / total < 0.3:
        return None
    return Hint(
        "Much of it is optimizer state",
        f"{format_bytes(size)} of {format_bytes(total)} in use at the peak are optimizer state. "
        "An optimizer with less of it helps: SGD with momentum has half of Adam's, 8-bit Adam a "
        "quarter; with several devices, shard it (ZeroRedundancyOptimizer, FSDP).",
        size,
    )


def optimizer_temporaries(facts: Facts) -> Hint | None:
    """Applies if a fifth of the peak or more are temporaries of the optimizer's own step."""
    held = (facts.copies - facts.before) * facts.born("optimizer")
    size = facts.size(held)
    if not facts.matters(size, 0.2):
        return None
    return Hint(
        "The optimizer's temporaries make the peak",
        f"{format_bytes(size)} ({facts.share(size):.0%}) of the peak are requested within "
        "optimizer.step(). Pass fused=True, which needs none, or foreach=False, which needs those "
        "of one parameter at a time.",
        size,
    )


def workspace(facts: Facts) -> Hint | None:
    """Applies if a tenth of the peak or more are short-lived blocks of convolutions."""
    profile = facts.profile
    short = (profile.end - profile.start <= _WORKSPACE_LIFE) & ~profile.persistent
    held = facts.copies * short * facts.matches(lambda op: "conv" in op, "op")
    size = facts.size(held)
    if not facts.matters(size, 0.1):
        return None
    return Hint(
        "A convolution's workspace at the peak",
        f"{format_bytes(size)} ({facts.share(size):.0%}) of the peak live for {_WORKSPACE_LIFE} "
        f"requests at most within a convolution{facts.largest(held)}: most likely a workspace. "
        "torch.backends.cudnn.benchmark = False, or channels_last, may choose a kernel with less.",
        size,
    )


def several_streams(facts: Facts) -> Hint | None:
    """Applies if blocks that cannot share memory across streams cost a fiftieth of the peak."""
    if len(facts.streams) < 2:
        return None
    apart = sum(use.max_load for use in facts.streams) - facts.peak.size
    shared = sum(use.shared_size for use in facts.streams)
    if not facts.matters(apart + shared, 0.02):
        return None
    used = ""
    if shared:
        used = f"; {format_bytes(shared)} are used on several streams and stay with the framework"
    return Hint(
        "Several streams",
        f"{len(facts.streams)} streams request memory. They take none of each other's, which costs "
        f"{format_bytes(apart)}{used}. Fewer side streams, or tensors allocated on the stream that "
        "uses them, help.",
        apart + shared,
    )


def varying_sizes(facts: Facts) -> Hint | None:
    """Applies if blocks vary in size, or most iterations differ from the one before."""
    drift = facts.drift
    restless = len(drift.steps) > 1 and drift.changed > len(drift.steps) // 2
    if not drift.varying and not restless:
        return None
    seen = []
    if drift.varying:
        seen.append(f"{drift.varying} blocks, {format_bytes(drift.varying_size)}, vary in size")
    if restless:
        seen.append(f"{drift.changed} of {len(drift.steps)} iterations differ from the one before")
    return Hint(
        "Iterations differ",
        f"{'; '.join(seen)}. Pad or bucket batches to few lengths: each length then has a plan, "
        "and the framework's cache finds blocks of the right size.",
        drift.varying_size,
    )


RULES: tuple[Callable[[Facts], Hint | None], ...] = (
    ran_out,
    leaking,
    numbers_kept,
    fragmented,
    gradients_held,
    held_over,
    two_slots,
    activations,
    logits,
    optimizer_state,
    optimizer_temporaries,
    workspace,
    several_streams,
    varying_sizes,
)
"""All rules; each is asked."""
