"""Random programs with tensors on several streams, with the real PyTorch over the stub.

    build/fakecuda/run PYTHON -m tests.fakecuda.pages.stream_attack --seed 1 --events 1000000

    stream 0   ──a──copy in──▲e──────────────free a──b──copy in──▶     while a is read, b has other
    stream 1   ──────────────▽w──copy out──▲────────────────────▶      memory, or stream 0 waits

Each program is an iteration that repeats under a session, so that it is recorded and replayed. A
block is filled on its own stream, and read on other streams after an event. Before it is freed, the
program calls `record_stream` for each read, or its stream waits for it. Streams lag at random, up
to whole iterations. Half of the programs do not follow their plans. With `--pools`, half of the
requests are made in `torch.cuda.MemPool`s, which the program sometimes replaces.

There are two oracles, which do not use pgmo's figures. Each block has a pattern, which must be
intact when the block is freed: so no two live blocks overlap. And the stub knows the bytes of
pending copies: no copy of another stream may overtake them, through any address. `--broken` is an
error that the oracles must notice.
"""

import argparse
import ctypes
import json
import random
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import pgmo
from pgmo.allocator import heuristics
from tests.fakecuda import control

BROKEN = ("waits", "records", "lifetimes")
"""Errors: streams ignore the allocator's waits; the program never calls `record_stream`; blocks are
freed too early."""

STREAMS, MOST = 4, 4 << 20
PATTERNS, STRIPE = 8, 4096
TURNS = 14


@dataclass
class Read:
    """Read of a block by another stream."""

    tick: int
    stream: int
    recorded: bool
    """Whether `record_stream` is called; otherwise the block's stream waits before the free."""


@dataclass
class Row:
    """Request of the program."""

    stream: int
    nbytes: int
    lifetime: int
    reads: list[Read]
    pool: int | None = None
    """Index of the pool in which the block is requested; None without a pool."""


@dataclass(eq=False)
class Block:
    """Tensor with the pattern that it must contain."""

    tensor: torch.Tensor
    row: Row
    pattern: int
    end: int
    filled: torch.cuda.Event
    reads: dict[int, list[Read]]
    joins: list[torch.cuda.Event] = field(default_factory=list)


class View:
    """Memory of a tensor, for a second tensor that does not own it."""

    def __init__(self, tensor: torch.Tensor) -> None:
        where = {"data": (tensor.data_ptr(), False), "shape": (tensor.numel(),)}
        self.__cuda_array_interface__ = where | {"typestr": "|u1", "version": 3}


class Ground:
    """Streams, pools and patterns that all programs use, and a buffer to read patterns."""

    def __init__(self, broken: str | None, pools: int) -> None:
        self.broken = broken
        self.pools = [torch.cuda.MemPool() for _ in range(pools)]
        self.streams = [torch.cuda.default_stream()]
        self.streams += [torch.cuda.Stream() for _ in range(STREAMS - 1)]
        stripes = np.arange(PATTERNS)[:, None] * PATTERNS + np.arange(MOST // STRIPE)
        rows = np.repeat((stripes % 251).astype(np.uint8), STRIPE, axis=1)
        self.patterns = torch.from_numpy(rows).pin_memory()
        self.seen = torch.empty(MOST, dtype=torch.uint8).pin_memory()
        self.differ = ctypes.CDLL(None).memcmp  # fifty times as fast as torch.equal
        self.differ.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
        self.counts: Counter[str] = Counter()

    def within(self, pool: int | None) -> AbstractContextManager[None]:
        """Return a context in which requests are made in the pool."""
        return nullcontext() if pool is None else torch.cuda.use_mem_pool(self.pools[pool])

    def wait(self, stream: int, event: torch.cuda.Event) -> None:
        """Let a stream wait for an event, as the program does."""
        self.counts["events"] += 1
        if self.broken == "waits":
            control.ignore_waits(False)
        self.streams[stream].wait_event(event)
        if self.broken == "waits":
            control.ignore_waits(True)


class Program:
    """Random iteration, and its random divergences."""

    def __init__(self, seed: int, ground: Ground) -> None:
        self.random, self.ground = random.Random(seed), ground
        self.wildness = self.random.choice([0, 0, 0.02, 0.1])
        self.lag = self.random.choice([0, 0.05, 0.3])
        self.joined = self.random.random()
        self.rows = [self.row() for _ in range(self.random.randint(5, 24))]
        self.living: list[Block] = []
        self.clock = self.filled = 0

    def row(self) -> Row:
        draw = self.random
        small = draw.random() < 0.4
        nbytes = draw.randint(1, 128) * 512 if small else draw.randint(1, 8) * (MOST // 8)
        lifetime = draw.randint(1, 20)
        stream = draw.randrange(STREAMS)
        others = [one for one in range(STREAMS) if one != stream]
        reads = [
            Read(draw.randrange(lifetime), draw.choice(others), draw.random() < 0.5)
            for _ in range(draw.choice([0, 0, 1, 2]))
        ]
        pools = len(self.ground.pools)
        pool = draw.randrange(pools) if pools and draw.random() < 0.5 else None
        return Row(stream, nbytes, lifetime, reads, pool)

    def departs(self, share: float = 1) -> bool:
        return self.wildness > 0 and self.random.random() < self.wildness * share

    def iterate(self) -> None:
        for row in self.rows:
            self.order()
            for block in [one for one in self.living if one.end <= self.clock]:
                self.free(block)
            if not self.departs():
                self.request(self.row() if self.departs() else row)
            for block in self.living:
                for read in block.reads.pop(self.clock, ()):
                    self.read(block, read)
            self.clock += 1

    def end(self) -> None:
        for block in list(self.living):
            self.free(block)
        for stream in self.ground.streams:
            control.release(stream)
        torch.cuda.synchronize()

    def order(self) -> None:
        """Hold, release and order streams at random."""
        ground, draw = self.ground, self.random
        if draw.random() < self.lag:
            control.hold(draw.choice(ground.streams))
        if draw.random() < 0.1:
            control.release(draw.choice(ground.streams))
        if draw.random() < 0.02:
            ground.counts["events"] += 1
            draw.choice(ground.streams).synchronize()
        if draw.random() < 0.2 * self.joined:
            one, other = draw.sample(range(STREAMS), 2)
            ground.wait(one, ground.streams[other].record_event())
        if ground.pools and draw.random() < 0.01:
            ground.pools[draw.randrange(len(ground.pools))] = torch.cuda.MemPool()
            ground.counts["pools"] += 1

    def request(self, row: Row) -> None:
        ground = self.ground
        pattern, self.filled = self.filled % PATTERNS, self.filled + 1
        stream = ground.streams[row.stream]
        with torch.cuda.stream(stream), ground.within(row.pool):
            tensor = torch.empty(row.nbytes, dtype=torch.uint8, device="cuda")
            tensor.copy_(ground.patterns[pattern, : row.nbytes], non_blocking=True)
        reads: dict[int, list[Read]] = {}
        for read in row.reads:
            reads.setdefault(self.clock + read.tick, []).append(read)
        lifetime = self.random.randint(1, 40) if self.departs() else row.lifetime
        filled = stream.record_event()
        block = Block(tensor, row, pattern, self.clock + lifetime, filled, reads)
        if ground.broken == "lifetimes" and self.random.random() < 0.1:
            block.tensor = torch.as_tensor(View(tensor), device="cuda")
        self.living.append(block)
        ground.counts["events"] += 3

    def read(self, block: Block, read: Read) -> None:
        ground = self.ground
        ground.wait(read.stream, block.filled)
        stream = ground.streams[read.stream]
        self.look(block, read.stream)
        if not read.recorded:
            block.joins.append(stream.record_event())
        elif ground.broken != "records":
            block.tensor.record_stream(stream)
        ground.counts["events"] += 1

    def free(self, block: Block) -> None:
        for event in block.joins:
            self.ground.wait(block.row.stream, event)
        self.look(block, block.row.stream)
        self.living.remove(block)
        del block.tensor
        self.ground.counts["events"] += 1

    def look(self, block: Block, stream: int) -> None:
        """Check a block's pattern. The stub executes a copy when it is submitted, even if held."""
        ground, nbytes = self.ground, block.row.nbytes
        with torch.cuda.stream(ground.streams[stream]):
            ground.seen[:nbytes].copy_(block.tensor, non_blocking=True)
        expected = ground.patterns[block.pattern].data_ptr()
        ground.counts["wrong"] += ground.differ(ground.seen.data_ptr(), expected, nbytes) != 0
        ground.counts["events"] += 1


def attack(seed: int, events: int, broken: str | None = None, pools: int = 0) -> dict[str, Any]:
    """Run programs until the number of events is reached, or an oracle finds an error.

    Args:
        seed: seed of all random choices.
        events: number of requests, copies, events, waits and frees of the programs.
        broken: one of `BROKEN`.
        pools: number of pools in which half of the requests are made.

    Returns:
        Counts, among them `wrong` patterns and `overtaken` copies.
    """
    ground = Ground(broken, pools)
    counts = ground.counts
    control.violations(reset=True)
    # Plans serve even if they need pages in addition to those that earlier programs have left.
    heuristics.use(heuristics.Heuristics(spare_share=1.0))
    control.ignore_waits(broken == "waits")
    while counts["events"] < events and not counts["wrong"] + counts["overtaken"]:
        program = Program(seed * 1_000_003 + counts["programs"], ground)
        with pgmo.optimize(device="cuda", tags=False) as session:
            for _ in range(TURNS):
                program.iterate()
                session.step()
            now = session.statistics
        program.end()
        counts["programs"] += 1
        counts["overtaken"] += control.violations(kernels=False, reset=True)
        for name in ("hits", "page_hand_overs", "page_waits", "page_waits_added", "page_maps"):
            counts[name] += now[name]
    control.ignore_waits(False)
    return {"seed": seed, **counts, "wrong": counts["wrong"], "overtaken": counts["overtaken"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--broken", choices=BROKEN)
    parser.add_argument("--pools", type=int, default=0)
    arguments = parser.parse_args()
    torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
    found = attack(arguments.seed, arguments.events, arguments.broken, arguments.pools)
    print(json.dumps(found))
    noticed = bool(found["wrong"] or found["overtaken"])
    raise SystemExit(noticed != bool(arguments.broken))


if __name__ == "__main__":
    main()
