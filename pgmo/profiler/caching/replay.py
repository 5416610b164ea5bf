"""A trace replayed under a model of PyTorch's allocator, as it was configured or otherwise."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from pgmo.errors import OptionError
from pgmo.profiler.caching.allocator import SMALL_SIZE, CachingAllocator, OutOfMemoryError
from pgmo.profiler.caching.curves import Curves, Reserved
from pgmo.profiler.caching.driver import FIRST_ADDRESS, RecordedAddresses, RisingAddresses
from pgmo.profiler.caching.first_segments import Segment, rebuild, segments_before
from pgmo.profiler.caching.settings import AllocatorSettings
from pgmo.profiler.trace import Event, Trace

if TYPE_CHECKING:
    from pgmo.profiler.caching.pools import Block

TAKEN = (Event.SEGMENT_ALLOC, Event.SEGMENT_MAP)
GIVEN_BACK = (Event.SEGMENT_FREE, Event.SEGMENT_UNMAP)


def simulate_trace(
    trace: Trace,
    settings: AllocatorSettings | None = None,
    capacity: int | None = None,
) -> Reserved:
    """Replays all events of a trace under a model of PyTorch's allocator.

    Without arguments the trace is followed: its own settings, segments and blocks that were there
    at the beginning with their addresses, new segments where the trace has them, and memory given
    back when the trace gives it back, because what asked for it (`empty_cache`, want of memory) is
    not in a trace. Only where to place which block, and when to take memory, is the model's.

    With other settings or a capacity the question is what would have happened. The blocks that
    were there at the beginning are then requested in their order, and nothing else is cached; the
    request of an out-of-memory event is tried; and cached memory is given back where the program
    seems to have asked for it, not where the trace seems to have been short of memory.

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
        follow = capacity is None
    else:
        follow = capacity is None and settings == _own_settings(trace)
    if not follow:
        return _Supposition(trace, CachingAllocator(settings, capacity)).run()
    segments = segments_before(trace, settings)
    allocator = CachingAllocator(settings, driver=_recorded_addresses(trace, segments))
    return _Retelling(trace, allocator, segments).run()


class _Replay(ABC):
    """What all replays share; `blocks` are those alive, by their address in the trace."""

    def __init__(self, trace: Trace, allocator: CachingAllocator) -> None:
        self.trace = trace
        self.allocator = allocator
        self.blocks: dict[int, Block] = {}
        self.deferred: dict[int, Block] = {}
        columns = (trace.kind, trace.address, trace.size, trace.stream)
        self.rows = list(zip(*(column.tolist() for column in columns), strict=True))
        # Not every source of traces knows both: then the one that it has is the free.
        self.defers = bool((trace.kind == Event.FREE_COMPLETED).any())

    def run(self) -> Reserved:
        """Replays all rows."""
        curves, placed = Curves(self.allocator), [0] * self.trace.requests
        request = 0
        try:
            self.begin()
            curves.served()
            curves.begin()
            for row in range(self.trace.before, len(self.rows)):
                kind, address, size, stream = self.rows[row]
                if kind == Event.ALLOC:
                    if size:
                        block = self.blocks[address] = self.allocator.malloc(size, stream)
                        placed[request] = block.address
                    curves.served()
                    request += 1
                elif kind == Event.FREE_REQUESTED and self.defers:
                    self.defer(address)
                elif kind in (Event.FREE_REQUESTED, Event.FREE_COMPLETED):
                    self.free(address)
                elif kind in GIVEN_BACK:
                    self.give_back(row)
                elif kind == Event.OOM:
                    self.out_of_memory(row)
        except OutOfMemoryError:
            return curves.result(self.trace.requests, placed, request)
        return curves.result(self.trace.requests, placed)

    def defer(self, address: int) -> None:
        """The program lets go of a block that may be in use on other streams."""
        block = self.blocks.pop(address, None)
        if block is not None:
            self.deferred[address] = block
            self.allocator.defer(block)

    def free(self, address: int) -> None:
        """A block is free, unless a retry has waited for it already."""
        block = self.deferred.pop(address, None)
        if block is not None:
            if self.allocator.is_pending(block):
                self.allocator.free(block)
        elif (block := self.blocks.pop(address, None)) is not None:
            self.allocator.free(block)

    @abstractmethod
    def begin(self) -> None:
        """Restores what was there before the trace."""

    @abstractmethod
    def give_back(self, row: int) -> None:
        """The allocator gave memory back to the driver."""

    @abstractmethod
    def out_of_memory(self, row: int) -> None:
        """A request was not served."""


class _Retelling(_Replay):
    """Follows a trace: what is given back is what the trace gives back."""

    def __init__(self, trace: Trace, allocator: CachingAllocator, segments: list[Segment]) -> None:
        super().__init__(trace, allocator)
        self._segments = segments

    def begin(self) -> None:
        """Rebuilds segments and blocks where they were."""
        self.blocks.update(rebuild(self._segments, self.allocator))
        for kind, address, size, stream in self.rows[: self.trace.before]:
            if kind == Event.ALLOC and size and address not in self.blocks:
                self.blocks[address] = self.allocator.malloc(size, stream)

    def give_back(self, row: int) -> None:
        """Gives back that segment or these pages, if they are free here, too."""
        kind, address, size, stream = self.rows[row]
        for small in (False, True):
            pool = self.allocator.pool(stream, small)
            for block in pool.blocks():
                if not block.address <= address < block.address + block.size:
                    continue
                if kind == Event.SEGMENT_UNMAP and block.space is not None:
                    self.allocator.unmap(block)
                elif kind == Event.SEGMENT_FREE and block.whole and block.size == size:
                    self.allocator.release(block)
                return

    def out_of_memory(self, row: int) -> None:
        """Maps what was mapped for the request until there was no more: it stays."""
        _, _, wanted, stream = self.rows[row]
        first = row
        while first > self.trace.before and self.rows[first - 1][0] == Event.SEGMENT_MAP:
            first -= 1
        pool = self.allocator.pool(stream, wanted <= SMALL_SIZE)
        for _, address, size, _ in self.rows[first:row]:
            if all(at != address for at, _ in pool.unmapped):
                self.allocator.reserve(pool)
            for at, block in list(pool.unmapped):
                if at == address and block.size >= size:
                    self.allocator.map(block, size)


class _Supposition(_Replay):
    """Asks what had happened with other settings or on another card."""

    def __init__(self, trace: Trace, allocator: CachingAllocator) -> None:
        super().__init__(trace, allocator)
        change = np.where(np.isin(trace.kind, TAKEN), trace.size, 0)
        change -= np.where(np.isin(trace.kind, GIVEN_BACK), trace.size, 0)
        self._reserved = np.cumsum(change)

    def begin(self) -> None:
        """Requests the blocks that were there; nothing else is cached."""
        for kind, address, size, stream in self.rows[: self.trace.before]:
            if kind == Event.ALLOC and size:
                self.blocks[address] = self.allocator.malloc(size, stream)

    def give_back(self, row: int) -> None:
        """Gives back all that is cached if the program asked for it."""
        if row > self.trace.before and self.rows[row - 1][0] in GIVEN_BACK:
            return  # the same occasion
        following = row
        while following < len(self.rows) and self.rows[following][0] in GIVEN_BACK:
            following += 1
        if following < len(self.rows):
            kind, _, size, _ = self.rows[following]
            # Short of memory, the allocator gives back and takes at once, and would have
            # had more than ever otherwise.
            before = int(self._reserved[row - 1]) if row else 0
            if kind == Event.OOM or (kind in TAKEN and before + size > self._reserved.max()):
                return
        self.allocator.empty_cache()

    def out_of_memory(self, row: int) -> None:
        """Tries the request; what the program had done with it is not known."""
        _, _, size, stream = self.rows[row]
        self.allocator.free(self.allocator.malloc(size, stream))


def _own_settings(trace: Trace) -> AllocatorSettings | None:
    """The settings of a trace; None where they are those of another allocator."""
    try:
        return AllocatorSettings.from_text(trace.settings)
    except OptionError:
        return None


def _recorded_addresses(trace: Trace, segments: list[Segment]) -> RisingAddresses:
    seen = slice(trace.before, None)
    kind, address, size = trace.kind[seen], trace.address[seen], trace.size[seen]
    signed = np.where(kind == Event.SEGMENT_UNMAP, -size, size)
    pairs = list(zip(signed.tolist(), address.tolist(), strict=True))
    mappings = np.isin(kind, (Event.SEGMENT_MAP, Event.SEGMENT_UNMAP))
    return RecordedAddresses(
        segments=[pairs[row] for row in np.flatnonzero(kind == Event.SEGMENT_ALLOC)],
        mapped=[pairs[row] for row in np.flatnonzero(mappings)],
        known=[
            (one.address, one.end, sum(end - begin for begin, end in one.mapped))
            for one in segments
            if one.expandable
        ],
        first=int((trace.address + trace.size).max(initial=FIRST_ADDRESS)),
    )
