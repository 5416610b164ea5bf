"""Arenas cut into blocks: hard problems whose best arena is known to be the max load."""

import random

import numpy as np

from pgmo.packing.problem import Problem


def dissected(
    blocks: int,
    seed: int = 0,
    *,
    ticks: int = 1 << 20,
    arena: int = 1 << 20,
    circular: bool = False,
) -> Problem:
    """Cut an arena into blocks without gaps, so that an arena of the max load exists.

    Cuts are at multiples of 1/1024 of the whole. On a circle, all lifetimes are turned by a random
    number of ticks, so that many blocks wrap.

    Args:
        blocks: number of blocks.
        seed: seed of the cuts.
        ticks: number of ticks.
        arena: size of the arena in bytes.
        circular: whether time is a circle.

    Example:
        >>> from pgmo.packing.lower_bound import max_load
        >>> max_load(dissected(30))
        1048576
    """
    rng = random.Random(seed)
    grain_of_time, grain = max(1, ticks // 1024), max(1, arena // 1024)
    pieces = [(0, ticks, 0, arena)]
    while len(pieces) < blocks:
        # Of three pieces the largest is cut, so that sizes differ but no piece stays huge.
        i = max(rng.sample(range(len(pieces)), min(3, len(pieces))), key=lambda i: _area(pieces[i]))
        begin, end, low, high = pieces[i]
        in_time = rng.random() < 0.5
        if in_time and end - begin > 2 * grain_of_time:
            at = rng.randrange(begin + grain_of_time, end, grain_of_time)
            pieces[i : i + 1] = [(begin, at, low, high), (at, end, low, high)]
        elif not in_time and high - low > 2 * grain:
            at = rng.randrange(low + grain, high, grain)
            pieces[i : i + 1] = [(begin, end, low, at), (begin, end, at, high)]
    rng.shuffle(pieces)
    begins, ends, lows, highs = np.array(pieces, np.int64).T
    turn = rng.randrange(ticks) if circular else 0
    lower = (begins + turn) % ticks
    return Problem(highs - lows, lower, lower + ends - begins, period=ticks if circular else 0)


def _area(piece: tuple[int, int, int, int]) -> int:
    begin, end, low, high = piece
    return (end - begin) * (high - low)
