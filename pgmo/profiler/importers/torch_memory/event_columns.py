"""Events of a snapshot as columns, which take a tenth of the memory of dictionaries."""

from array import array
from collections import Counter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.importers.checked_values import integer, shown, text
from pgmo.profiler.importers.earlier_blocks import Rows
from pgmo.profiler.importers.torch_memory.odd_values import OddValues
from pgmo.profiler.importers.torch_memory.stacks import Stacks
from pgmo.profiler.trace import MOST_ADDRESS, MOST_SIZE, Event

_KINDS: Final = {
    "alloc": Event.ALLOC,
    "free_requested": Event.FREE_REQUESTED,
    "free_completed": Event.FREE_COMPLETED,
    "segment_alloc": Event.SEGMENT_ALLOC,
    "segment_free": Event.SEGMENT_FREE,
    "segment_map": Event.SEGMENT_MAP,
    "segment_unmap": Event.SEGMENT_UNMAP,
    "oom": Event.OOM,
}
_PASSED_OVER = ("snapshot", "annotate")  # Ignored actions: a snapshot, a tensor's annotation.
_NO_KIND: Final = -1
_NO_TIME: Final = -1
_MASK: Final = 2**64 - 1


class EventColumns:
    """All events of a file, one row each, including unreadable ones."""

    def __init__(self, stacks: Stacks, odd: OddValues) -> None:
        self._stacks = stacks
        self._odd = odd
        self.unknown: Counter[str] = Counter()
        """Unknown actions and their counts."""
        self.free: dict[int, int] = {}
        """Free bytes of the device at each failed request, by row."""
        self.left_out = 0
        self.clear()

    def __len__(self) -> int:
        return len(self._kind)

    def clear(self) -> None:
        """Free the memory of the columns."""
        self._kind, self._stream, self._stack = array("b"), array("Q"), array("i")
        self._numbers = [array("q") for _ in range(3)]  # Address, size, time.

    def add(self, found: dict[str, Any]) -> None:
        """Add an event. `readable` drops its row if a value other than the time is invalid."""
        try:
            self._append(found)
        except (OverflowError, TypeError, ValueError) as error:
            self._odd.add("event", str(error))
            self.left_out += 1
            columns = (self._kind, *self._numbers, self._stream, self._stack)
            for column in columns:
                del column[len(self._stack) :]
            for column, value in zip(columns, (_NO_KIND, 0, 0, 0, 0, -1), strict=True):
                column.append(value)

    def readable(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows with a known kind and a valid size and address; count invalid rows."""
        rows = rows[_view(self._kind, np.int8)[rows] >= 0]
        address, size = (_view(column, np.int64)[rows] for column in self._numbers[:2])
        good = (size >= 0) & (size <= MOST_SIZE) & (address >= 0) & (address <= MOST_ADDRESS)
        wrong = np.flatnonzero(~good)
        if len(wrong):
            first = f"the size is {size[wrong[0]]}, the address {address[wrong[0]]}"
            self._odd.add("event", first, len(wrong))
            self.left_out += len(wrong)
        return rows[good]

    def columns(self, rows: NDArray[np.int64]) -> Rows:
        """Return some events. An event without a time has the time of the previous event."""
        address, size, time = (_view(column, np.int64)[rows] for column in self._numbers)
        known = np.maximum.accumulate(np.where(time >= 0, np.arange(len(time)), 0))
        return Rows(
            kind=_view(self._kind, np.int8)[rows],
            address=address,
            size=size,
            stream=_view(self._stream, np.uint64)[rows],
            origin=_view(self._stack, np.int32)[rows],
            time=np.maximum(time[known], 0),
        )

    def _append(self, found: dict[str, Any]) -> None:
        action, time = found["action"], found.get("time_us")
        if type(action) is not str:
            raise ValueError(f"the action is {shown(action)}, which is not a string")
        if type(time) is not int or not 0 <= time <= MOST_ADDRESS:
            if time is not None:
                self._odd.add("time", f"it is {shown(time)}")
            time = _NO_TIME
        kind = _KINDS.get(action, _NO_KIND)
        if kind < 0 and action not in _PASSED_OVER:
            self.unknown[text(action, "an action")] += 1
        address = found.get("addr", 0)
        if kind == Event.OOM:
            free = found.get("device_free", address)
            self.free[len(self._kind)] = integer(free, "the free memory of a device")
            address = 0
        self._kind.append(kind)
        self._numbers[0].append(address)
        self._numbers[1].append(found.get("size", 0))
        self._numbers[2].append(time)
        self._stream.append(found.get("stream", 0) & _MASK)
        self._stack.append(self._stacks.number(found.get("frames", ())))


def _view(column: "array[int]", dtype: type[Any]) -> NDArray[Any]:
    return np.frombuffer(column, dtype) if len(column) else np.empty(0, dtype)
