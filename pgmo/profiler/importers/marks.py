"""Where iterations begin, as far as a snapshot's annotations or metadata tell.

external_annotations   ProfilerStep#7 START         an iteration begins
Optimizer.step#... END       the next one begins
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
_BEGINNING = 200  # characters of metadata that are looked at
_PROFILER = "ProfilerStep#"
_OPTIMIZER = "Optimizer.step#"


@dataclass(frozen=True)
class Marks:
    """Beginnings of iterations.

    Args:
        rows: the event that each of them comes before, ascending.
        explanation: what told, in words.
        by: the same as a trace has it.
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
    """Finds the beginnings of iterations in one device's events.

    Args:
        time: of each event, microseconds, shape (m,).
        note: which user metadata was set at each event, shape (m,).
        notes: the texts of that metadata.
        annotations: the snapshot's `external_annotations`.
        device: number of the device.
    """
    own = [item for item in annotations if item.get("device", device) == device]
    found = [_annotated(time, own, *kind) for kind in ((_PROFILER, "START"), (_OPTIMIZER, "END"))]
    # A profiler that is never told to step begins a single one.
    told = next((marks for marks in found if len(marks.rows) > 1), None)
    told = told or next((marks for marks in found if marks.rows), None)
    if told is None and len(time) and _begun(own):
        told = Marks((len(time),), "an optimizer step that does not end")
    return told or _from_metadata(note, notes)


def _annotated(
    time: NDArray[np.int64], own: Sequence[Mapping[str, Any]], prefix: str, stage: str
) -> Marks:
    """Where annotations of this name and stage tell that iterations begin."""
    told = [
        (text(item["name"], "a name"), integer(item["time_us"], "a time"))
        for item in own
        if text(item.get("name", ""), "a name").startswith(prefix)
        and item.get("stage") == stage
        # Of those before the first event that is left nothing is known.
        and len(time)
        and integer(item["time_us"], "a time") >= time[0]
    ]
    if not told:
        return Marks()
    if prefix == _PROFILER:
        what, times = "ProfilerStep", [at for _, at in told]
    else:
        # Several optimizers may step in an iteration, some of them more than once.
        counts = Counter(name for name, _ in told)
        name = min(counts, key=lambda name: counts[name])
        what, times = f"the end of {name}", [at for own_name, at in told if own_name == name]
    # Whole microseconds: what ends with an event ends after it, what begins with it before it.
    later = np.array(sorted(times), np.int64) + (stage == "END")
    rows = np.unique(np.searchsorted(time, later))
    return Marks(tuple(rows.tolist()), what)


def _begun(own: Sequence[Mapping[str, Any]]) -> bool:
    """Whether an optimizer began to step: memory ran out in it, or the recording ended."""
    return any(
        text(item.get("name", ""), "a name").startswith(_OPTIMIZER) and item.get("stage") == "START"
        for item in own
    )


def _from_metadata(note: NDArray[np.int32], notes: Sequence[str]) -> Marks:
    """Where the only number in the metadata that changes goes up by one."""
    changes = np.flatnonzero(note[1:] != note[:-1]) + 1
    # A text without numbers in between (an evaluation, say) belongs to the iteration before it.
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
    """Whether one number went up by one; those after it may begin again (epoch 3, step 0)."""
    if len(last) != len(numbers):
        return False
    at = next(i for i in range(len(last)) if last[i] != numbers[i])
    return numbers[at] == last[at] + 1
