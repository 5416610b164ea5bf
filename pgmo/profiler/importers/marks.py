"""Search for the beginnings of iterations in a snapshot's annotations and metadata.

external_annotations   ProfilerStep#7 START         an iteration begins
                       Optimizer.step#... END       the next iteration begins
user_metadata          "step 7" -> "step 8"         numbers that go up by one each time
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.importers.checked_values import integer, text
from pgmo.profiler.trace import MarkedBy

_NUMBER = re.compile(r"\d{1,18}")
_BEGINNING = 200  # Characters of metadata that are searched.
_PROFILER = "ProfilerStep#"
_OPTIMIZER = "Optimizer.step#"


@dataclass(frozen=True)
class Marks:
    """Beginnings of iterations.

    Args:
        rows: number of events before each iteration, ascending.
        explanation: name of the marks for messages, such as "ProfilerStep"; "" without marks.
        by: kind of the marks.
    """

    rows: tuple[int, ...] = ()
    explanation: str = ""
    by: MarkedBy = MarkedBy.STEPS


def find_marks(
    time: NDArray[np.int64],
    note: NDArray[np.int32],
    notes: Sequence[str],
    annotations: Sequence[Mapping[str, Any]],
    device: int,
) -> Marks:
    """Find the beginnings of iterations in one device's events.

    Args:
        time: time of each event in microseconds, shape (m,).
        note: index into `notes` of the user metadata set at each event, shape (m,).
        notes: the texts of user metadata.
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
    return chosen or _from_metadata(note, notes)


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


def _from_metadata(note: NDArray[np.int32], notes: Sequence[str]) -> Marks:
    """Return the rows where the numbers in the metadata change, or none if they do not count up."""
    changes = np.flatnonzero(note[1:] != note[:-1]) + 1
    # A text without numbers, such as one for an evaluation, belongs to the preceding iteration.
    last: list[int] | None = None
    rows = []
    for row in [0, *changes.tolist()] if len(note) else []:
        numbers = [int(own) for own in _NUMBER.findall(notes[note[row]][:_BEGINNING])]
        if not numbers or numbers == last:
            continue
        if last is not None and not _follows(last, numbers):
            return Marks()
        rows.append(row)
        last = numbers
    return Marks(tuple(rows), "user metadata", MarkedBy.METADATA) if len(rows) > 1 else Marks()


def _follows(last: list[int], numbers: list[int]) -> bool:
    """Return whether the first number that changed went up by one. Later numbers may restart."""
    if len(last) != len(numbers):
        return False
    at = next(i for i in range(len(last)) if last[i] != numbers[i])
    return numbers[at] == last[at] + 1
