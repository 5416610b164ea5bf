"""Random programs for the caching allocator, and the model's answer to each of their steps."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pgmo.profiler.caching.allocator import CachingAllocator, OutOfMemoryError
from pgmo.profiler.caching.pools import Block
from pgmo.profiler.caching.settings import AllocatorSettings

MIB = 1 << 20
STREAMS = 3


@dataclass(frozen=True)
class Program:
    """What to run: `card` in MiB, `fraction` of it allowed, as the program itself would say."""

    conf: str
    seed: int
    steps: int = 400
    card: int = 4096
    fraction: float | None = None
    other_streams: bool = False

    @property
    def settings(self) -> AllocatorSettings:
        more = "" if self.fraction is None else f"per_process_memory_fraction:{self.fraction}"
        return AllocatorSettings.from_text(",".join(filter(None, [self.conf, more])))


Step = tuple[Any, ...]


def steps(program: Program) -> Iterator[Step]:
    """("alloc", number, bytes, stream), ("free", number), ("share", number, stream), ("empty",).

    Numbers of requests that failed may be freed: that does nothing. With other streams these are
    held and released, too: ("hold", stream), ("release", stream).
    """
    draw = random.Random(program.seed)
    alive: list[int] = []
    sizes: list[int] = []
    held: set[int] = set()
    number = 0
    for _ in range(program.steps):
        what = draw.random()
        if what < 0.01:
            yield ("empty",)
        elif program.other_streams and what < 0.05:
            stream = draw.randrange(STREAMS)
            yield ("release" if stream in held else "hold", stream)
            held ^= {stream}
        elif program.other_streams and alive and what < 0.12:
            yield ("share", draw.choice(alive), draw.randrange(STREAMS))
        elif alive and what < 0.25 + len(alive) / 150:
            # Programs free what is young, or what they kept for long.
            yield ("free", alive.pop(draw.choice([-1, 0, draw.randrange(len(alive))])))
        else:
            size = draw.choice(sizes) if sizes and draw.random() < 0.5 else _size(draw)
            sizes.append(size)
            stream = draw.randrange(STREAMS) if program.other_streams else 0
            yield ("alloc", number, size, stream)
            alive.append(number)
            number += 1
    for last in alive:
        yield ("free", last)
    for stream in sorted(held):
        yield ("release", stream)
    yield ("empty",)


def _size(draw: random.Random) -> int:
    """Sizes of all kinds: about the borders of the rules, and anywhere between."""
    kind = draw.random()
    if kind < 0.25:
        return draw.randrange(1, 1 << draw.randrange(1, 21))
    if kind < 0.4:
        border = draw.choice([512, MIB, 2 * MIB, 10 * MIB, 20 * MIB, 64 * MIB, 128 * MIB])
        return max(1, border + draw.choice([-512, -1, 0, 1, 512, MIB]))
    return int(MIB * 2 ** draw.uniform(0, 8))


@dataclass(frozen=True)
class State:
    """After a step: bytes, and each segment's stream and blocks as (bytes, in use)."""

    reserved: int
    active: int
    failed: bool
    segments: list[tuple[int, list[tuple[int, bool]]]]


class Hold:
    """Pending work of a stream; whoever waits for it ends it."""

    def __init__(self) -> None:
        self.over = False


class WaitingAllocator(CachingAllocator):
    """The model, telling for which streams the genuine one waits: these are no longer held."""

    holds: dict[int, Hold]
    events: list[tuple[Block, list[Hold]]]

    def release(self, block: Block) -> None:
        """`cudaFree` waits for the whole device."""
        super().release(block)
        for hold in self.holds.values():
            hold.over = True

    def unmap(self, block: Block) -> None:
        """Unmapping waits for the stream of the segment."""
        before = self.reserved
        super().unmap(block)
        if self.reserved < before and block.pool.stream in self.holds:
            self.holds[block.pool.stream].over = True

    def empty_cache(self) -> None:
        """Waits for all that is pending first."""
        for block, holds in self.events:
            if self.is_pending(block):
                for hold in holds:
                    hold.over = True
        super().empty_cache()


class ModelRun:
    """Programs run on the model; events of other streams are seen at the next request.

    Args:
        program: the first.
        capacity: bytes that the driver gives.
    """

    def __init__(self, program: Program, capacity: int) -> None:
        self.allocator = WaitingAllocator(program.settings, capacity, card=program.card * MIB)
        self.holds = self.allocator.holds = {}
        self.events: list[tuple[Block, list[Hold]]] = []
        self.allocator.events = self.events
        self.blocks: dict[int, Block] = {}
        self.uses: dict[int, set[int]] = {}

    def step(self, step: Step) -> State:
        """Takes one step."""
        failed = False
        match step:
            case ("alloc", number, size, stream):
                self._see_events()
                try:
                    self.blocks[number] = self.allocator.malloc(size, stream)
                    self.uses[number] = set()
                except OutOfMemoryError:
                    failed = True
            case ("free", number) if number in self.blocks:
                self._free(self.blocks.pop(number), self.uses.pop(number))
            case ("share", number, stream) if number in self.blocks:
                if stream != self.blocks[number].pool.stream:
                    self.uses[number].add(stream)
            case ("hold", stream):
                if stream not in self.holds or self.holds[stream].over:
                    self.holds[stream] = Hold()
            case ("release", stream) if stream in self.holds:
                self.holds[stream].over = True
            case ("empty",):
                self.allocator.empty_cache()
        return State(self.allocator.reserved, self.allocator.active, failed, self._segments())

    def _free(self, block: Block, uses: set[int]) -> None:
        if not uses:
            self.allocator.free(block)
            return
        self.allocator.defer(block)
        holds = [self.holds[stream] for stream in uses if stream in self.holds]
        self.events.append((block, [hold for hold in holds if not hold.over]))

    def _see_events(self) -> None:
        for block, holds in self.events:
            if self.allocator.is_pending(block) and all(hold.over for hold in holds):
                self.allocator.free(block)
        self.events[:] = [one for one in self.events if self.allocator.is_pending(one[0])]

    def _segments(self) -> list[tuple[int, list[tuple[int, bool]]]]:
        """Segments by address; a stretch that is mapped without a gap is one."""
        deferred = [block for block, _ in self.events if self.allocator.is_pending(block)]
        free = [block for pool in self.allocator.pools() for block in pool.blocks()]
        known = sorted([*self.blocks.values(), *deferred, *free], key=lambda b: b.address)
        found: list[tuple[int, list[tuple[int, bool]]]] = []
        for block in known:
            before = block.preceding
            if before is None or not before.mapped:
                found.append((block.pool.stream, []))
            found[-1][1].append((block.size, block.busy))
        return found
