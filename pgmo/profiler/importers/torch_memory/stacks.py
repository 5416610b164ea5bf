"""The stacks of a snapshot: a number for each while it is read, and tags for those that count."""

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
"""A stack's number where none was recorded; -1 is a stack that was, and is empty."""


class Stacks:
    """Stacks of calls, each kept once, however often it is in the file."""

    def __init__(self, odd: OddValues | None = None) -> None:
        self._odd = odd or OddValues()
        self._frames: dict[Frame, Frame] = {}
        self._numbers: dict[tuple[Frame, ...], int] = {}
        # By identity, for most are one object; kept here, so that no other can take its place.
        self._same: dict[int, tuple[object, int]] = {}
        self._made: dict[int, Tag] = {}
        self._by_number: list[tuple[Frame, ...]] = []
        self._labels: Labels | None = None

    def frame(self, found: Mapping[str, Any]) -> Frame:
        """Return a frame of a snapshot, without those of its values that are none.

        PyTorch writes the line -1 of frames that have none as 2**64 - 1.
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
        """Return the number of a stack of calls; -1 for none."""
        if not frames:
            return -1
        known = self._same.get(id(frames))
        if known is not None:
            return known[1]
        if type(frames) is not list and type(frames) is not tuple:
            self._odd.add("stack", f"it is {shown(frames)}, which is no list of frames")
            return -1
        some = shortened(frames, _MOST_FRAMES)
        stack = tuple(frame for frame in some if type(frame) is Frame)
        if len(stack) < len(some):
            self._odd.add("stack", "one of its frames is none")
        number = self._numbers.setdefault(stack, len(self._numbers))
        self._same[id(frames)] = frames, number
        return number

    def origins(self, whole: Rows) -> NDArray[np.int32]:
        """Tags of the rows that make something; a stack's number becomes that of its tag."""
        used, tag = self._used(whole)
        made = np.where(_is_made(whole), whole.origin, _NO_TAG)
        place = np.searchsorted(used, made)
        place[place == len(used)] = 0
        known = (used[place] == made) if len(used) else np.zeros(len(made), np.bool_)
        return np.where(known, tag[place] if len(used) else -1, -1).astype(np.int32)

    def tags(self, whole: Rows) -> tuple[Tag, ...]:
        """The distinct tags, in the order of their numbers."""
        used, _ = self._used(whole)
        return tuple(dict.fromkeys(self._tag(int(number)) for number in used))

    def _used(self, whole: Rows) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Numbers of the stacks that made something, and the numbers of their tags."""
        used = np.unique(whole.origin[_is_made(whole)])
        used = used[used != _NO_TAG]
        place: dict[Tag, int] = {}
        tags = [place.setdefault(self._tag(int(number)), len(place)) for number in used]
        return used, np.array(tags, np.int32)

    def _tag(self, number: int) -> Tag:
        if self._labels is None:  # all stacks are known by now
            self._by_number = list(self._numbers)
            self._labels = Labels(self._frames)
        if number not in self._made:
            stack = self._by_number[number] if number >= 0 else ()
            self._made[number] = tag_of(stack, self._labels)
        return self._made[number]


def drop_untold(rows: Rows, before: int) -> Rows:
    """The rows, without an origin where an empty stack tells nothing.

    Among stacks, an empty one tells the thread: that of the backward pass. But stacks may be
    recorded of what is alive alone, and blocks older than the recording have none.
    """
    seen = np.arange(len(rows)) >= before
    recorded = bool((seen & _is_made(rows) & (rows.origin >= 0)).any())
    nothing = (rows.origin < 0) & ~(seen & recorded)
    return replace(rows, origin=np.where(nothing, _NO_TAG, rows.origin).astype(np.int32))


def _is_made(rows: Rows) -> NDArray[np.bool_]:
    made: NDArray[np.bool_] = (rows.kind == Event.ALLOC) | (rows.kind == Event.OOM)
    return made


def _text(value: Any) -> str:
    """Return the beginning of a text that can be printed; "" for a value of another type."""
    return printable(value[:MOST_TEXT]) if type(value) is str else ""
