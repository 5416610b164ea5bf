"""Memory of the regions of a step, and lifetimes of its tensors.

    forward     region 0   graph 0   region 1   graph 1   region 2
    backward    region 3   graph 1   region 4   graph 0   region 5

A region is the code between two graphs. In a dry run, graphs hold nothing, so all live bytes belong
to regions.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Region:
    """Bytes live at a region's start, peak and end, relative to the level before the step."""

    entry: int
    peak: int
    exit: int


@dataclass(eq=False)
class StorageLife:
    """Lifetime of a storage of `size` bytes that is an input or output of a graph.

    After region `death`, only graphs hold the storage. `death` is None while other code holds it.
    """

    size: int
    death: int | None = None


def regions(changes: Sequence[tuple[str, int]], count: int) -> list[Region]:
    """Return the regions of a step.

    Frees before a region's first allocation belong to the preceding graph, because autograd holds
    gradients of the graph's outputs until the graph's backward pass has returned.

    Args:
        changes: `Meter.changes`, with the labels "graph" and "region".
        count: expected number of regions. If `changes` has more or fewer, all bytes are 0.

    Example:
        >>> regions([("", 8), ("graph", 0), ("", 64), ("region", 0), ("", -64), ("", 4)], 2)
        [Region(entry=0, peak=8, exit=8), Region(entry=8, peak=12, exit=12)]
    """
    found: list[Region] = []
    level = peak = 0
    entry: int | None = 0
    inside = True
    for label, change in [*changes, ("graph", 0)]:
        if label:
            if inside:
                found.append(Region(level if entry is None else entry, peak, level))
            inside, entry, peak = label == "region", None, level
            continue
        if inside and entry is None and change > 0:
            entry = peak = level
        level += change
        peak = max(peak, level) if entry is not None else level
    return found if len(found) == count else [Region(0, 0, 0)] * count
