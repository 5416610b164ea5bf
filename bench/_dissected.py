"""Arenas cut into blocks: problems of which it is known that nothing need be wasted. Hard."""

import random
from collections.abc import Iterator

import numpy as np

from pgmo.packing.problem import Problem

LIVES = ("even", "long", "short", "nested")
"""What lifetimes are like: as `dissected` takes them."""


def hard_ones(
    blocks: tuple[int, ...] = (300, 500, 750, 1000), seeds: int = 1
) -> Iterator[tuple[str, Problem]]:
    """Names and problems of all kinds of lifetimes, on a line and on a circle."""
    for lives in LIVES:
        for count in blocks:
            for circular in (False, True):
                for seed in range(seeds):
                    kind = "circle" if circular else "line"
                    problem = dissected(count, seed, circular=circular, lives=lives)
                    yield f"{lives} {count} {kind} {seed}", problem


def dissected(
    blocks: int,
    seed: int = 0,
    *,
    ticks: int = 1 << 20,
    arena: int = 1 << 20,
    circular: bool = False,
    lives: str = "even",
) -> Problem:
    """An arena cut into blocks without waste, time and memory in turns: the load is reached.

    Cuts are at multiples of 1/1024 of the whole. On a circle, all lifetimes are turned by a random
    number of ticks, so that many blocks wrap.

    Args:
        blocks: how many.
        seed: of the cuts.
        ticks: of the whole.
        arena: bytes of the whole.
        circular: whether time is a circle.
        lives: "even" cuts time as often as memory, "long" seldom, "short" mostly; "nested" begins
            with blocks of which each lives within the one below, as in forward and backward.

    Example:
        >>> from pgmo.packing.lower_bound import max_load
        >>> max_load(dissected(30))
        1048576
    """
    rng = random.Random(seed)
    grain_of_time, grain = max(1, ticks // 1024), max(1, arena // 1024)
    share = {"even": 0.5, "long": 0.3, "short": 0.7, "nested": 0.5}[lives]
    pieces, whole = [(0, ticks, 0, arena)], []
    if lives == "nested":
        whole, pieces = _nested(rng, max(4, blocks // 24), ticks, arena, grain_of_time, grain)
    while len(whole) + len(pieces) < blocks:
        # The largest of a few: pieces differ in size, but none stays huge.
        i = max(rng.sample(range(len(pieces)), min(3, len(pieces))), key=lambda i: _area(pieces[i]))
        begin, end, low, high = pieces[i]
        in_time = rng.random() < share
        if in_time and end - begin > 2 * grain_of_time:
            at = rng.randrange(begin + grain_of_time, end, grain_of_time)
            pieces[i : i + 1] = [(begin, at, low, high), (at, end, low, high)]
        elif not in_time and high - low > 2 * grain:
            at = rng.randrange(low + grain, high, grain)
            pieces[i : i + 1] = [(begin, end, low, at), (begin, end, at, high)]
    pieces += whole
    rng.shuffle(pieces)
    begin, end, low, high = np.array(pieces, np.int64).T
    turn = rng.randrange(ticks) if circular else 0
    lower = (begin + turn) % ticks
    return Problem(high - low, lower, lower + end - begin, period=ticks if circular else 0)


def _nested(
    rng: random.Random, depth: int, ticks: int, arena: int, grain_of_time: int, grain: int
) -> tuple[list[tuple[int, int, int, int]], list[tuple[int, int, int, int]]]:
    """Blocks of which each lies on and lives within the one before, and the pieces that remain."""
    whole, pieces = [], []
    begin, end, low = 0, ticks, 0

    def part(of: float, unit: int) -> int:
        return max(unit, round(of * rng.uniform(0.4, 1.6) / unit) * unit)

    for left in range(depth, 0, -1):
        high = min(low + part((arena - low) / left, grain), arena - grain)
        first = begin + part((end - begin) / left / 2, grain_of_time)
        last = end - part((end - begin) / left / 2, grain_of_time)
        if high <= low or last - first < 4 * grain_of_time:
            break
        whole.append((begin, end, low, high))
        pieces += [(begin, first, high, arena), (last, end, high, arena)]
        begin, end, low = first, last, high
    return whole, [*pieces, (begin, end, low, arena)]


def _area(piece: tuple[int, int, int, int]) -> int:
    begin, end, low, high = piece
    return (end - begin) * (high - low)
