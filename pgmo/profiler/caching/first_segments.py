"""Segments and blocks as they were when a trace begins, rebuilt for the model."""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from pgmo.profiler.caching.allocator import SMALL_SEGMENT, SMALL_SIZE, CachingAllocator, rounded
from pgmo.profiler.caching.pools import Block
from pgmo.profiler.caching.settings import AllocatorSettings
from pgmo.profiler.trace import Event, Trace


@dataclass
class Segment:
    """Memory taken from the driver before the trace; `blocks` are (address, bytes) in order.

    Expandable segments of a stream and pool are one, with `mapped` ranges (begin, end).
    """

    stream: int
    address: int
    end: int
    expandable: bool
    small: bool = False
    blocks: list[tuple[int, int]] = field(default_factory=list)
    mapped: list[tuple[int, int]] = field(default_factory=list)


def segments_before(trace: Trace, settings: AllocatorSettings) -> list[Segment]:
    """The segments in the rows that rebuild the beginning of a trace."""
    before = slice(0, trace.before)
    rows = list(
        zip(
            trace.kind[before].tolist(),
            trace.address[before].tolist(),
            trace.size[before].tolist(),
            trace.stream[before].tolist(),
            strict=True,
        )
    )
    segments = sorted(
        (
            Segment(stream, address, address + size, settings.expandable_segments)
            for kind, address, size, stream in rows
            if kind in (Event.SEGMENT_ALLOC, Event.SEGMENT_MAP)
        ),
        key=lambda segment: segment.address,
    )
    addresses = [segment.address for segment in segments]
    for kind, address, size, _ in rows:
        index = bisect_right(addresses, address) - 1
        if kind == Event.ALLOC and index >= 0 and address < segments[index].end:
            segments[index].blocks.append((address, rounded(size, settings.divisions)))
    for segment in segments:
        segment.blocks.sort()
        segment.small = _is_small(segment, settings.large_segment_size)
    return _united(segments)


def _is_small(segment: Segment, page: int) -> bool:
    """Whether a segment serves requests up to 1 MiB: what is in it tells, or else its size."""
    if segment.blocks:
        return max(size for _, size in segment.blocks) <= SMALL_SIZE
    size = segment.end - segment.address
    return size % page != 0 if segment.expandable else size == SMALL_SEGMENT


def _united(segments: list[Segment]) -> list[Segment]:
    """Joins the mapped ranges of expandable segments."""
    united: dict[tuple[int, bool], Segment] = {}
    others = []
    for segment in segments:
        if not segment.expandable:
            others.append(segment)
            continue
        key = (segment.stream, segment.small)
        whole = united.setdefault(key, Segment(segment.stream, segment.address, 0, True, key[1]))
        whole.mapped.append((segment.address, segment.end))
        whole.blocks += segment.blocks
        whole.end = segment.end
    return others + list(united.values())


def rebuild(segments: Iterable[Segment], allocator: CachingAllocator) -> dict[int, Block]:
    """Gives an allocator the segments, and returns the blocks in use by their address."""
    used: dict[int, Block] = {}
    for segment in segments:
        pool = allocator.pool(segment.stream, segment.small)
        blocks = deque(_with_slack(segment, allocator.settings))
        if not segment.expandable:
            size = segment.end - segment.address
            used |= _fill(allocator, allocator.add_segment(pool, segment.address, size), blocks)
            continue
        unmapped: Block | None = allocator.reserve(pool, segment.address)
        for begin, end in segment.mapped:
            assert unmapped is not None  # the range that was reserved goes on
            mapped = _skip(unmapped, begin)
            allocator.map(mapped, end - begin)
            pool.remove(mapped)
            unmapped = mapped.following
            used |= _fill(allocator, mapped, blocks)
    return used


def _skip(unmapped: Block, address: int) -> Block:
    """The part of an unmapped block from an address on."""
    if address <= unmapped.address:
        return unmapped
    pool = unmapped.pool
    pool.remove_unmapped(unmapped)
    end = unmapped.address + unmapped.size
    rest = Block(pool, address, end - address, unmapped.space, mapped=False)
    rest.insert_after(unmapped, unmapped.following)
    unmapped.size = address - unmapped.address
    for block in (unmapped, rest):
        pool.add_unmapped(block)
    return rest


def _fill(
    allocator: CachingAllocator, free: Block | None, blocks: deque[tuple[int, int]]
) -> dict[int, Block]:
    """Cuts the blocks in use that lie in a free one out of it; what remains goes to the pool."""
    used: dict[int, Block] = {}
    while free is not None:
        end = free.address + free.size
        if not blocks or blocks[0][0] >= end:
            free.pool.add(free)
            break
        address, size = blocks.popleft()
        if address < free.address:
            continue  # overlaps its predecessor: a trace that contradicts itself
        if address > free.address:
            before, free = free, _cut(free, address)
            before.pool.add(before)
        rest = _cut(free, address + size) if address + size < end else None
        free.busy = True
        allocator.active += free.size
        used[address] = free
        free = rest
    return used


def _cut(block: Block, address: int) -> Block:
    """Cuts a block in two; returns the second."""
    rest = Block(block.pool, address, block.address + block.size - address, block.space)
    rest.insert_after(block, block.following)
    block.size = address - block.address
    return rest


def _with_slack(segment: Segment, settings: AllocatorSettings) -> list[tuple[int, int]]:
    """The blocks with their unused ends: what is too short to have been split off."""
    if segment.small or segment.expandable or not segment.blocks:
        return segment.blocks
    if segment.end - segment.address >= (settings.max_split_size or segment.end):
        return [(segment.address, segment.end - segment.address)]
    following = [address for address, _ in segment.blocks[1:]] + [segment.end]
    return [
        (address, after - address if after - address - size <= SMALL_SIZE else size)
        for (address, size), after in zip(segment.blocks, following, strict=True)
    ]
