"""What a step was seen to do around its parts: calls, levels of memory, lives of tensors.

    forward     region 0   part 0   region 1   part 1   region 2
    backward    region 3   part 1   region 4   part 0   region 5

A region is what runs between two parts. Parts hold nothing while this is measured, so that
levels are what the regions hold.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import nn

from pgmo.recompute.capture.joint_graph import Captured
from pgmo.recompute.runtime.call import CapturedCall


@dataclass(frozen=True)
class Region:
    """Bytes alive above those before the step.

    Args:
        entry: at its beginning.
        peak: most of them.
        exit: at its end.
    """

    entry: int
    peak: int
    exit: int


@dataclass(eq=False)
class Life:
    """One storage that a part is given or makes.

    Args:
        size: bytes.
        death: the region in which nobody but parts holds it any more; None while there is one.
    """

    size: int
    death: int | None = None


@dataclass(frozen=True, eq=False)
class PartCall:
    """A call of a part in a forward pass.

    Args:
        module: that was called.
        path: of the module.
        number: of earlier calls of the same module in the same pass.
        record: the call as it was captured, with nothing forgotten.
        given: lives of the call's distinct tensors; None for what is there before the step.
        made: lives of the tensors that it returns; None for what is not its own.
        owners: for each input of the graph the identity of the parameter that it is, or None; None
            where `record` has the parameters.
    """

    module: nn.Module
    path: str
    number: int
    record: CapturedCall
    given: Sequence[Life | None]
    made: Sequence[Life | None]
    owners: Sequence[int | None] | None = None

    @property
    def captured(self) -> Captured:
        """The part's own step in the smallest operations, as planners see it."""
        return self.record.planned.finest()


@dataclass(eq=False)
class StepTrace:
    """Trace of one step of a model in parts.

    Args:
        calls: of parts, in the order of the forward pass.
        backward: numbers of calls in the order of their derivatives, and which results had one.
        regions: one more than there are calls, and one more than there are derivatives.
    """

    calls: list[PartCall] = field(default_factory=list)
    backward: list[tuple[int, tuple[bool, ...]]] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)


def regions(changes: Sequence[tuple[str, int]], count: int) -> list[Region]:
    """Regions from what a meter saw.

    What is freed at the beginning of a region, before anything is allocated, belongs to the part
    before it: autograd holds its gradients until it has returned.

    Args:
        changes: bytes as they come and go; the labels "part" and "region" begin one.
        count: how many there are; nothing is known where something else was measured meanwhile.

    Example:
        >>> regions([("", 8), ("part", 0), ("", 64), ("region", 0), ("", -64), ("", 4)], 2)
        [Region(entry=0, peak=8, exit=8), Region(entry=8, peak=12, exit=12)]
    """
    found: list[Region] = []
    level = peak = 0
    entry: int | None = 0
    inside = True
    for label, change in [*changes, ("part", 0)]:
        if label == "part" or (label == "region" and inside):
            if inside:
                found.append(Region(level if entry is None else entry, peak, level))
            inside = label == "region"
            entry, peak = None, level
        elif label == "region":
            inside, entry, peak = True, None, level
        elif not label:
            if inside and entry is None and change > 0:
                entry = peak = level
            level += change
            if entry is not None:
                peak = max(peak, level)
    return found if len(found) == count else [Region(0, 0, 0)] * count
