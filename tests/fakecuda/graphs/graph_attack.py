"""Random replays of graphs on several streams, with the real PyTorch over the stub.

    PGMO_GRAPHS=1 build/fakecuda/run PYTHON -m tests.fakecuda.graphs.graph_attack --replays 100000

    chain A   forward ── backward ── forward ── backward      forward: input ─▶ kept, output
    chain B       forward ─────── backward                    backward: kept ─▶ gradient

Each chain has its own pool, and the pools share pages. Streams lag at random. Other chains may
replay between the forward and the backward graph of a chain. Graphs consist of copies, which the
stub executes at each replay.

There are two oracles. Outputs and gradients must have the pattern of their input, and no copy may
overtake a pending copy of another stream. `--broken waits` disables pgmo's waits, which the oracles
must notice. With `--lend`, some requests fail; before each failure, idle pages of graphs go back to
the card.
"""

import argparse
import json
import random
from collections import Counter
from typing import Any

import torch

import pgmo
from tests.fakecuda import control
from tests.fakecuda.graphs.figures import figures

STREAMS, CHAINS = 4, 10
MIB = 1 << 20


class Chain:
    """Forward and backward graph in one pool."""

    def __init__(self, draw: random.Random, streams: list[torch.cuda.Stream]) -> None:
        self.streams, self.stream = streams, draw.choice(streams)
        self.value = 0
        self.open = False
        size = draw.randint(1, 8) * (MIB // 2)
        self.input = torch.zeros(size, dtype=torch.uint8).cuda()
        self.pattern = torch.zeros(size, dtype=torch.uint8).pin_memory()
        self.seen = torch.zeros_like(self.pattern).pin_memory()
        self.forward, self.backward = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.forward):
            kept = self.copied(self.copied(self.input))
            self.output = self.copied(self.copied(kept))
        with torch.cuda.graph(self.backward, pool=self.forward.pool()):
            self.gradient = self.copied(self.copied(kept))
            del kept

    @staticmethod
    def copied(tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(tensor).copy_(tensor)

    def change_stream(self, other: torch.cuda.Stream) -> None:
        """Continue on another stream, after a wait of the program."""
        control.ignore_waits(False)
        other.wait_stream(self.stream)
        self.stream = other

    def step(self, value: int, broken: str | None) -> None:
        """Replay the next graph."""
        with torch.cuda.stream(self.stream):
            if not self.open:
                self.value = value
                self.pattern.fill_(value)
                self.input.copy_(self.pattern, non_blocking=True)
            control.ignore_waits(broken == "waits")
            (self.backward if self.open else self.forward).replay()
            control.ignore_waits(False)
        self.open = not self.open

    def wrong(self) -> bool:
        """Return whether the latest result differs from the input.

        The stub executes a copy when it is submitted, even if its stream is held.
        """
        with torch.cuda.stream(self.stream):
            latest = self.output if self.open else self.gradient
            self.seen.copy_(latest, non_blocking=True)
        return bool((self.seen != self.value).any())


def fail() -> None:
    """Request more memory than the card has."""
    try:
        torch.empty(1 << 42, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        return
    raise AssertionError("the card has 4 TiB")


def attack(
    seed: int, replays: int, broken: str | None = None, lend: bool = False
) -> dict[str, Any]:
    """Replay graphs until the number of replays is reached, or an oracle finds an error.

    Args:
        seed: seed of all random choices.
        replays: number of replays.
        broken: "waits", or None.
        lend: whether some requests fail.

    Returns:
        Counts, among them `wrong` values and `overtaken` copies.
    """
    draw = random.Random(seed)
    streams = [torch.cuda.Stream() for _ in range(STREAMS)]
    chains: list[Chain] = []
    counts: Counter[str] = Counter()
    control.violations(reset=True)
    while counts["replays"] < replays and not counts["wrong"] + counts["overtaken"]:
        if len(chains) < 2 or (len(chains) < CHAINS and draw.random() < 0.02):
            for stream in streams:
                control.release(stream)
            chains.append(Chain(draw, streams))
        if draw.random() < 0.005:
            chains.pop(draw.randrange(len(chains)))
            continue
        if lend and draw.random() < 0.05:
            for stream in streams:
                control.release(stream)
            fail()
        if draw.random() < 0.2:
            control.hold(draw.choice(streams))
        if draw.random() < 0.3:
            control.release(draw.choice(streams))
        chain = draw.choice(chains)
        if draw.random() < 0.1:
            chain.change_stream(draw.choice(streams))
        chain.step(counts["replays"] % 251 + 1, broken)
        counts["replays"] += 1
        counts["wrong"] += chain.wrong()
        counts["overtaken"] += control.violations(kernels=False, reset=True)
    for stream in streams:
        control.release(stream)
    return {"wrong": counts["wrong"], "overtaken": counts["overtaken"], **counts, **figures()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--replays", type=int, default=100_000)
    parser.add_argument("--broken", choices=("waits",))
    parser.add_argument("--lend", action="store_true")
    arguments = parser.parse_args()
    torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
    found = attack(arguments.seed, arguments.replays, arguments.broken, arguments.lend)
    print(json.dumps(found))
    noticed = bool(found["wrong"] or found["overtaken"])
    raise SystemExit(noticed != bool(arguments.broken))


if __name__ == "__main__":
    main()
