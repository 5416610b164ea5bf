"""A trace replayed under a model of PyTorch's allocator."""

import numpy as np

from pgmo import _core
from pgmo.profiler.caching.curves import Curves, Reserved
from pgmo.profiler.caching.native import native_allocator
from pgmo.profiler.caching.settings import AllocatorSettings
from pgmo.profiler.trace import Event, Trace

_TAKEN = (Event.SEGMENT_ALLOC, Event.SEGMENT_MAP)
_GIVEN_BACK = (Event.SEGMENT_FREE, Event.SEGMENT_UNMAP)


def simulate_trace(
    trace: Trace,
    settings: AllocatorSettings | None = None,
    capacity: int | None = None,
) -> Reserved:
    """Says what would have happened with other settings or on another card.

    The blocks that were there at the beginning are requested in their order, and nothing else is
    cached; the request of an out-of-memory event is tried; and cached memory is given back where
    the program seems to have asked for it, not where the trace seems to have been short of memory.
    What did happen, the trace has itself: its events of segments.

    Args:
        trace: the events.
        settings: how the allocator is configured; the trace's own when left out.
        capacity: bytes of the card that the allocator can use; None = no limit.

    Returns:
        Curves with one value for each request that was seen, shape (trace.requests,). The peaks
        include the beginning.

    Raises:
        OptionError: when the trace's settings cannot be read, or the capacity is not above 0.

    Example:
        >>> trace = Trace.from_columns(
        ...     kind=[Event.ALLOC, Event.FREE_COMPLETED], address=[512, 512], size=[600, 600]
        ... )
        >>> result = simulate_trace(trace)
        >>> result.peak_reserved >> 20, result.peak_active
        (2, 1024)
    """
    if settings is None:
        settings = AllocatorSettings.from_text(trace.settings)
    return _Replay(trace, native_allocator(settings, capacity)).run()


class _OutOfMemoryError(Exception):
    """The model has no room for a request."""


class _Replay:
    """Replay of a trace: `blocks` are those alive, by their address in the trace.

    `deferred` are those that the program has freed and other streams may still use.
    """

    def __init__(self, trace: Trace, allocator: _core.ModelledAllocator) -> None:
        self.trace = trace
        self.allocator = allocator
        self.blocks: dict[int, int] = {}
        self.deferred: dict[int, int] = {}
        columns = (trace.kind, trace.address, trace.size, trace.stream)
        self.rows = list(zip(*(column.tolist() for column in columns), strict=True))
        # Not every source of traces knows both: then the one that it has is the free.
        self.defers = bool((trace.kind == Event.FREE_COMPLETED).any())
        change = np.where(np.isin(trace.kind, _TAKEN), trace.size, 0)
        change -= np.where(np.isin(trace.kind, _GIVEN_BACK), trace.size, 0)
        self.reserved = np.cumsum(change)

    def run(self) -> Reserved:
        """Replays all rows."""
        curves, placed = Curves(self.allocator), [0] * self.trace.requests
        request = 0
        try:
            for kind, address, size, stream in self.rows[: self.trace.before]:
                if kind == Event.ALLOC and size:
                    self._allocate(address, size, stream)
            curves.served()
            curves.begin()
            for row in range(self.trace.before, len(self.rows)):
                kind, address, size, stream = self.rows[row]
                if kind == Event.ALLOC:
                    if size:
                        placed[request] = self._allocate(address, size, stream)
                    curves.served()
                    request += 1
                elif kind == Event.FREE_REQUESTED and self.defers:
                    self._defer(address)
                elif kind in (Event.FREE_REQUESTED, Event.FREE_COMPLETED):
                    self._free(address)
                elif kind in _GIVEN_BACK:
                    if self._was_asked_for(row):
                        self.allocator.empty_cache()
                elif kind == Event.OOM:
                    # What the program had done with it is not known.
                    block, _ = self.allocator.allocate(size, stream)
                    if block < 0:
                        raise _OutOfMemoryError
                    self.allocator.free(block)
        except _OutOfMemoryError:
            return curves.result(self.trace.requests, placed, request)
        return curves.result(self.trace.requests, placed)

    def _allocate(self, address: int, size: int, stream: int) -> int:
        """Serve a request of the trace; return the address in the model."""
        block, place = self.allocator.allocate(size, stream)
        if block < 0:
            raise _OutOfMemoryError
        self.blocks[address] = block
        return place

    def _defer(self, address: int) -> None:
        """The program lets go of a block that may be in use on other streams."""
        block = self.blocks.pop(address, None)
        if block is not None:
            self.deferred[address] = self.allocator.postpone(block)

    def _free(self, address: int) -> None:
        """A block is free; no effect if a retry has waited for it already."""
        pending = self.deferred.pop(address, None)
        if pending is not None:
            self.allocator.settle(pending)
        elif (block := self.blocks.pop(address, None)) is not None:
            self.allocator.free(block)

    def _was_asked_for(self, row: int) -> bool:
        """Whether memory is given back because the program wants that, for the first time here."""
        if row > self.trace.before and self.rows[row - 1][0] in _GIVEN_BACK:
            return False  # the same occasion
        following = row
        while following < len(self.rows) and self.rows[following][0] in _GIVEN_BACK:
            following += 1
        if following == len(self.rows):
            return True
        kind, _, size, _ = self.rows[following]
        # Short of memory, the allocator gives back and takes at once, and would have had more
        # than ever otherwise.
        before = int(self.reserved[row - 1]) if row else 0
        most = self.reserved.max()
        return not (kind == Event.OOM or (kind in _TAKEN and before + size > most))
