"""Call stacks of a snapshot, numbered while the file is read. Stacks of requests become tags."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.importers.checked_values import MOST_TEXT, printable, shown
from pgmo.profiler.importers.earlier_blocks import Rows
from pgmo.profiler.importers.frames import Frame, Labels, shortened, tag_of
from pgmo.profiler.importers.torch_memory.odd_values import OddValues
from pgmo.profiler.tag import Tag
from pgmo.profiler.trace import Event

_MOST_FRAMES: Final = 1024
_MOST_LINE: Final = 2**31
_NO_TAG: Final = -2
"""Number for a stack that was not recorded; -1 stands for a recorded empty stack."""


class Stacks:
    """Set of call stacks, in which each distinct stack is stored once."""

    def __init__(self, odd: OddValues) -> None:
        self._odd = odd
        self._frames: dict[Frame, Frame] = {}
        self._numbers: dict[tuple[Frame, ...], int] = {}
        # Keyed by identity, because most equal stacks are the same object. The entry keeps the
        # object alive, so that its id is not reused.
        self._same: dict[int, tuple[object, int]] = {}
        self._made: dict[int, Tag] = {}
        self._by_number: list[tuple[Frame, ...]] = []
        self._labels: Labels | None = None

    def frame(self, found: Mapping[str, Any]) -> Frame:
        """Return a frame of a snapshot, with invalid values replaced by "" or 0.

        PyTorch writes the line -1 of frames without a line as 2**64 - 1.
        """
        name, file, line = found.get("name", ""), found.get("filename"), found.get("line", 0)
        is_line = type(line) is int and -_MOST_LINE <= line <= _MOST_LINE
        if not is_line:
            self._odd.add("frame", f"its line is {shown(line)}")
        elif not (type(name) is str and type(file) is str):
            odd = file if type(name) is str else name
            self._odd.add("frame", f"the name of its function or file is {shown(odd)}")
        frame = Frame(_text(name), _text(file), line if is_line else 0)
        return self._frames.setdefault(frame, frame)

    def number(self, frames: Any) -> int:
        """Return the number of a call stack; -1 for an empty or invalid one."""
        if not frames:
            return -1
        known = self._same.get(id(frames))
        if known is not None:
            return known[1]
        if type(frames) is not list and type(frames) is not tuple:
            self._odd.add("stack", f"it is {shown(frames)}, which is not a list of frames")
            return -1
        some = shortened(frames, _MOST_FRAMES)
        stack = tuple(frame for frame in some if type(frame) is Frame)
        if len(stack) < len(some):
            self._odd.add("stack", "one of its entries is not a frame")
        number = self._numbers.setdefault(stack, len(self._numbers))
        self._same[id(frames)] = frames, number
        return number

    def tagged(self, whole: Rows) -> tuple[NDArray[np.int32], tuple[Tag, ...]]:
        """Return the tag number of each row, or -1 for a row without a tag; and the tags."""
        made = np.where(_is_made(whole), whole.origin, _NO_TAG)
        used, place = np.unique(made, return_inverse=True)
        tags: dict[Tag, int] = {}
        numbers = [
            -1 if number == _NO_TAG else tags.setdefault(self._tag(number), len(tags))
            for number in used.tolist()
        ]
        return np.array(numbers, np.int32)[place], tuple(tags)

    def _tag(self, number: int) -> Tag:
        if self._labels is None:  # All stacks have been read by now.
            self._by_number = list(self._numbers)
            self._labels = Labels(self._frames)
        if number not in self._made:
            stack = self._by_number[number] if number >= 0 else ()
            self._made[number] = tag_of(stack, self._labels)
        return self._made[number]


def drop_unknown_origins(rows: Rows, before: int) -> Rows:
    """Remove the origin of rows whose empty stack has no meaning.

    If stacks were recorded, an empty stack belongs to the thread of the backward pass. An empty
    stack has no meaning for blocks older than the recording, or if no event has a stack.
    """
    seen = np.arange(len(rows)) >= before
    recorded = bool((seen & _is_made(rows) & (rows.origin >= 0)).any())
    nothing = (rows.origin < 0) & ~(seen & recorded)
    return replace(rows, origin=np.where(nothing, _NO_TAG, rows.origin).astype(np.int32))


def _is_made(rows: Rows) -> NDArray[np.bool_]:
    made: NDArray[np.bool_] = (rows.kind == Event.ALLOC) | (rows.kind == Event.OOM)
    return made


def _text(value: Any) -> str:
    """Return the printable beginning of a text; "" for a value of another type."""
    return printable(value[:MOST_TEXT]) if type(value) is str else ""
