"""Search for the beginnings of iterations in a snapshot's annotations.

external_annotations   ProfilerStep#7 START         an iteration begins
                       Optimizer.step#... END       the next iteration begins
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.importers.checked_values import integer, text

_PROFILER = "ProfilerStep#"
_OPTIMIZER = "Optimizer.step#"


@dataclass(frozen=True)
class Marks:
    """Beginnings of iterations.

    Args:
        rows: number of events before each iteration, ascending.
        explanation: name of the marks for messages, such as "ProfilerStep"; "" without marks.
    """

    rows: tuple[int, ...] = ()
    explanation: str = ""


def find_marks(
    time: NDArray[np.int64], annotations: Sequence[Mapping[str, Any]], device: int
) -> Marks:
    """Find the beginnings of iterations in one device's events.

    Args:
        time: time of each event in microseconds, shape (m,).
        annotations: the snapshot's `external_annotations`.
        device: number of the device.
    """
    own = [item for item in annotations if item.get("device", device) == device]
    found = [_annotated(time, own, *kind) for kind in ((_PROFILER, "START"), (_OPTIMIZER, "END"))]
    # A profiler whose `step` is never called marks only one iteration.
    chosen = next((marks for marks in found if len(marks.rows) > 1), None)
    chosen = chosen or next((marks for marks in found if marks.rows), None)
    if chosen is None and len(time) and _begun(own):
        chosen = Marks((len(time),), "an optimizer step that does not end")
    return chosen or Marks()


def _annotated(
    time: NDArray[np.int64], own: Sequence[Mapping[str, Any]], prefix: str, stage: str
) -> Marks:
    """Return the beginnings that annotations of a stage mark, if their names have the prefix."""
    named = [
        (text(item["name"], "a name"), integer(item["time_us"], "a time"))
        for item in own
        if text(item.get("name", ""), "a name").startswith(prefix)
        and item.get("stage") == stage
        # Annotations from before the first recorded event match no event.
        and len(time)
        and integer(item["time_us"], "a time") >= time[0]
    ]
    if not named:
        return Marks()
    if prefix == _PROFILER:
        what, times = "ProfilerStep", [at for _, at in named]
    else:
        # Several optimizers may step in an iteration, some more than once. Use the optimizer with
        # the fewest steps.
        counts = Counter(name for name, _ in named)
        name = min(counts, key=lambda name: counts[name])
        what, times = f"the end of {name}", [at for own_name, at in named if own_name == name]
    # An event in the same microsecond as an annotation counts as before an END and after a START.
    later = np.array(sorted(times), np.int64) + (stage == "END")
    rows = np.unique(np.searchsorted(time, later))
    return Marks(tuple(rows.tolist()), what)


def _begun(own: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether any optimizer step begins. A step that runs out of memory has no end."""
    return any(
        text(item.get("name", ""), "a name").startswith(_OPTIMIZER) and item.get("stage") == "START"
        for item in own
    )
