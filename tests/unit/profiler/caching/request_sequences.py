"""Random programs for the caching allocator, and the state of its model after each step."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pgmo.profiler.caching.model import native_allocator
from pgmo.profiler.caching.settings import AllocatorSettings

MIB = 1 << 20
STREAMS = 3


@dataclass(frozen=True)
class Program:
    """Settings and a seed, from which `steps` draws a program.

    Args:
        conf: value of `PYTORCH_ALLOC_CONF`.
        seed: seed of the random numbers.
        steps: number of steps before the last frees.
        card: bytes of the card, in MiB.
        fraction: fraction of the card that PyTorch may use; None: all of it.
        other_streams: whether there are requests on `STREAMS` streams.
        user_pools: number of `MemPool` objects at a time.
    """

    conf: str
    seed: int
    steps: int = 400
    card: int = 4096
    fraction: float | None = None
    other_streams: bool = False
    user_pools: int = 0

    @property
    def settings(self) -> AllocatorSettings:
        more = "" if self.fraction is None else f"per_process_memory_fraction:{self.fraction}"
        return AllocatorSettings.from_text(",".join(filter(None, [self.conf, more])))


PROGRAMS = (
    Program("", 1),
    Program("", 2, card=1024),
    Program("", 3, other_streams=True),
    Program("", 4, card=1024, fraction=0.5, other_streams=True),
    Program("expandable_segments:True", 5),
    Program("expandable_segments:True", 6, card=1024),
    Program("expandable_segments:True", 7, other_streams=True),
    Program("expandable_segments:True", 8, card=1024, fraction=0.5, other_streams=True),
    Program("roundup_power2_divisions:4", 9),
    Program("roundup_power2_divisions:[2:2,8:4,64:1,>:8]", 10, other_streams=True),
    Program("max_split_size_mb:32", 11),
    Program("max_split_size_mb:64,max_non_split_rounding_mb:40", 12, card=1024),
    Program("max_split_size_mb:32,roundup_power2_divisions:2", 13, card=1024, fraction=0.6),
    Program("garbage_collection_threshold:0.6", 14, card=2048, fraction=0.6),
    Program("garbage_collection_threshold:0.3,max_split_size_mb:100", 15, card=1024, fraction=0.9),
    Program("garbage_collection_threshold:0.5,expandable_segments:True", 16, 400, 1024, 0.9),
    Program("large_segment_size_mb:64", 17),
    Program("large_segment_size_mb:40,expandable_segments:True", 18, card=1024),
    Program("", 19, user_pools=2),
    Program("", 20, card=1024, user_pools=2),
    Program("", 21, card=1024, other_streams=True, user_pools=2),
)
"""Programs of all settings."""

Step = tuple[Any, ...]


def steps(program: Program) -> Iterator[Step]:
    """Yield the steps of a program.

    Steps are ("alloc", number, bytes, stream, pool), ("free", number), ("share", number, stream),
    ("hold", stream), ("release", stream), ("close", pool) and ("empty",), which empties the cache.
    A free of a request that failed does nothing. A stream that is held has pending work until it is
    released. Pool 0 stands for no pool. The first request from another pool creates it.
    """
    draw = random.Random(program.seed)
    alive: list[int] = []
    sizes: list[int] = []
    held: set[int] = set()
    pools = list(range(1, program.user_pools + 1))
    last_pool = program.user_pools
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
        elif pools and what > 0.98:
            yield ("close", pools.pop(0))
            last_pool += 1
            pools.append(last_pool)
        elif alive and what < 0.25 + len(alive) / 150:
            # The newest block, the oldest one, or any.
            yield ("free", alive.pop(draw.choice([-1, 0, draw.randrange(len(alive))])))
        else:
            size = draw.choice(sizes) if sizes and draw.random() < 0.5 else _size(draw)
            sizes.append(size)
            stream = draw.randrange(STREAMS) if program.other_streams else 0
            yield ("alloc", number, size, stream, draw.choice([0, *pools]) if pools else 0)
            alive.append(number)
            number += 1
    for last in alive:
        yield ("free", last)
    for stream in sorted(held):
        yield ("release", stream)
    yield ("empty",)


def _size(draw: random.Random) -> int:
    """Return random bytes: small, near the limits of the allocator's rules, or large."""
    kind = draw.random()
    if kind < 0.25:
        return draw.randrange(1, 1 << draw.randrange(1, 21))
    if kind < 0.4:
        border = draw.choice([512, MIB, 2 * MIB, 10 * MIB, 20 * MIB, 64 * MIB, 128 * MIB])
        return max(1, border + draw.choice([-512, -1, 0, 1, 512, MIB]))
    return int(MIB * 2 ** draw.uniform(0, 8))


@dataclass(frozen=True)
class State:
    """Reserved and active bytes after a step, and the free blocks: (bytes, stream, small pool)."""

    reserved: int
    active: int
    failed: bool
    free: list[tuple[int, int, bool]]


class Hold:
    """Pending work of a stream, until it is released or the allocator waits for it."""

    def __init__(self) -> None:
        self.over = False


class ModelRun:
    """A run of a program on the model, which looks at pending events at the next request.

    Args:
        program: program whose settings and card the model has.
        capacity: bytes that the driver can allocate.
    """

    def __init__(self, program: Program, capacity: int) -> None:
        self.allocator = native_allocator(program.settings, capacity, card=program.card * MIB)
        self.holds: dict[int, Hold] = {}
        self.blocks: dict[int, tuple[int, int]] = {}  # number: (number in the model, stream)
        self.uses: dict[int, set[int]] = {}
        self.pending: list[tuple[int, list[Hold]]] = []

    def step(self, step: Step) -> State:
        """Take one step, and return the state after it."""
        failed = False
        match step:
            case ("alloc", number, size, stream, pool):
                if pool == 0:  # PyTorch ignores events while a pool is active
                    self._settle()
                block, _ = self.allocator.allocate(size, stream, pool)
                failed = block < 0
                if not failed:
                    self.blocks[number], self.uses[number] = (block, stream), set()
            case ("free", number) if number in self.blocks:
                self._free(self.blocks.pop(number)[0], self.uses.pop(number))
            case ("share", number, stream) if number in self.blocks:
                if stream != self.blocks[number][1]:
                    self.uses[number].add(stream)
            case ("hold", stream):
                if stream not in self.holds or self.holds[stream].over:
                    self.holds[stream] = Hold()
            case ("release", stream) if stream in self.holds:
                self.holds[stream].over = True
            case ("empty",):
                self.allocator.empty_cache()
            case ("close", pool):
                self.allocator.close_pool(pool)
        blocks = self.allocator.free_blocks()
        free = sorted((size, stream, small) for size, _, stream, small in blocks)
        return State(self.allocator.reserved, self.allocator.active, failed, free)

    def waited_for(self, streams: list[int]) -> None:
        """End the pending work of streams, for which the genuine allocator has waited."""
        for stream in streams:
            if stream in self.holds:
                self.holds[stream].over = True

    def _free(self, block: int, uses: set[int]) -> None:
        if not uses:
            self.allocator.free(block)
            return
        holds = [self.holds[stream] for stream in uses if stream in self.holds]
        self.pending.append(
            (self.allocator.postpone(block), [one for one in holds if not one.over])
        )

    def _settle(self) -> None:
        done = [one for one in self.pending if all(hold.over for hold in one[1])]
        self.pending = [one for one in self.pending if one not in done]
        for number, _ in done:
            self.allocator.settle(number)
