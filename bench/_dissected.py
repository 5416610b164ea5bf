"""Arenas cut into blocks: problems of which it is known that nothing need be wasted. Hard."""

import random
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from pgmo.packing.problem import Problem

LIVES = ("even", "long", "short", "nested")
"""What lifetimes are like: as `dissected` takes them."""

Piece = tuple[int, int, int, int]
"""Begin and end in time, low and high in memory."""


def hard_ones(
    blocks: tuple[int, ...] = (300, 500, 750, 1000), seeds: int = 1
) -> Iterator[tuple[str, Problem]]:
    """Names and problems of all kinds of lifetimes: lines, turned lines, and circles that wrap."""
    for lives in LIVES:
        for count in blocks:
            for seed in range(seeds):
                yield f"{lives} {count} line {seed}", dissected(count, seed, lives=lives)
                turned = dissected(count, seed, circular=True, lives=lives)
                yield f"{lives} {count} turned {seed}", turned
                yield f"{lives} {count} circle {seed}", wound(count, seed, lives=lives)


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
    grains = max(1, ticks // 1024), max(1, arena // 1024)
    pieces = _cut(rng, blocks, [(0, ticks, 0, arena)], lives, grains)
    return _problem(rng, pieces, ticks, circular=circular)


def wound(
    blocks: int,
    seed: int = 0,
    *,
    ticks: int = 1 << 20,
    arena: int = 1 << 20,
    lives: str = "even",
) -> Problem:
    """A cylinder cut into blocks without waste: at each tick some block lives on, so it is no line.

    It begins with some twenty pieces in a stack through which a cut winds: pieces end one or a few
    neighbours at a time, and others take their place, until the first ones are there again. These
    are cut like the whole of `dissected`.

    Args:
        blocks: how many; at least 60.
        seed: of the cuts.
        ticks: of a turn.
        arena: bytes of the whole.
        lives: as `dissected` takes them.

    Example:
        >>> from pgmo.packing.lower_bound import max_load
        >>> max_load(wound(60))
        1048576
    """
    rng = random.Random(seed)
    grains = max(1, ticks // 1024), max(1, arena // 1024)
    while True:
        pieces = _cut(rng, blocks, _winding(rng, ticks, arena, grains), lives, grains)
        if not _common_cuts(pieces, ticks):
            return _problem(rng, pieces, ticks, circular=True)


def _cut(
    rng: random.Random, blocks: int, pieces: list[Piece], lives: str, grains: tuple[int, int]
) -> list[Piece]:
    """So many blocks from these pieces."""
    grain_of_time, grain = grains
    share = {"even": 0.5, "long": 0.3, "short": 0.7, "nested": 0.5}[lives]
    whole: list[Piece] = []
    if lives == "nested":
        largest = max(pieces, key=_area)
        rest = [piece for piece in pieces if piece is not largest]
        whole, pieces = _nested(rng, max(4, blocks // 24), largest, grain_of_time, grain)
        pieces = rest + pieces
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
    return pieces + whole


def _winding(rng: random.Random, ticks: int, arena: int, grains: tuple[int, int]) -> list[Piece]:
    """A stack of pieces whose neighbours give way to others in turn, until it is as it was."""
    first, moves = rng.randint(5, 8), rng.randint(6, 12)
    bounds = [0, *sorted(rng.sample(range(grains[1], arena, grains[1]), first - 1)), arena]
    times = sorted(rng.sample(range(grains[0], ticks, grains[0]), moves + first))
    stack = [(0, low, high) for low, high in pairwise(bounds)]  # with when they began
    seam = dict.fromkeys(bounds[:-1], 0)  # when those at the seam end, in the next turn
    pieces: list[Piece] = []

    def give_way(i: int, j: int, at: int, inner: list[int]) -> None:
        """Ends stack[i:j] and fills the hole, with bounds within it."""
        for began, low, high in stack[i:j]:
            if began:
                pieces.append((began, at, low, high))
            else:
                seam[low] = at
        edges = sorted({stack[i][1], stack[j - 1][2], *inner})
        stack[i:j] = [(at, low, high) for low, high in pairwise(edges)]

    for at in times[:moves]:
        i = rng.randrange(len(stack))
        j = min(len(stack), i + rng.randint(1, 3))
        room = range(stack[i][1] + grains[1], stack[j - 1][2], grains[1])
        give_way(i, j, at, rng.sample(room, min(len(room), rng.randint(1, 2))))
    last = list(pairwise(bounds))
    rng.shuffle(last)
    for at, (low, high) in zip(times[moves:], last, strict=True):
        i = max(k for k, piece in enumerate(stack) if piece[1] <= low)
        j = 1 + min(k for k, piece in enumerate(stack) if piece[2] >= high)
        give_way(i, j, at, [low, high])
    return pieces + [(began, ticks + seam[low], low, high) for began, low, high in stack]


def _common_cuts(pieces: list[Piece], ticks: int) -> list[int]:
    """Where no piece but those that live for all of a turn lives on."""
    alive = [(begin, end) for begin, end, _, _ in pieces if end - begin < ticks]
    cuts = {at % ticks for piece in alive for at in piece}
    return [
        at for at in cuts if not any(0 < (at - begin) % ticks < end - begin for begin, end in alive)
    ]


def _problem(rng: random.Random, pieces: list[Piece], ticks: int, *, circular: bool) -> Problem:
    """Pieces in any order, on a circle all of them a random time later."""
    rng.shuffle(pieces)
    begin, end, low, high = np.array(pieces, np.int64).T
    turn = rng.randrange(ticks) if circular else 0
    lower = (begin + turn) % ticks
    return Problem(high - low, lower, lower + end - begin, period=ticks if circular else 0)


def _nested(
    rng: random.Random, depth: int, piece: Piece, grain_of_time: int, grain: int
) -> tuple[list[Piece], list[Piece]]:
    """Blocks of which each lies on and lives within the one before, and the pieces that remain."""
    whole, pieces = [], []
    begin, end, low, arena = piece

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


def _area(piece: Piece) -> int:
    begin, end, low, high = piece
    return (end - begin) * (high - low)
