"""A search for requests under which pages need more than expandable segments.

A program is a list of requests, each with its bytes and the number of later requests that it
outlives. The search begins with random programs, and from then on changes the best so far: greedy,
since a walk that also goes down finds no more in so few steps. What it finds is a lower bound of
the worst there is.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

MIB = 1 << 20
SCALES = tuple(MIB << power for power in range(2, 10))
"""Of programs: the largest block is one of these. Those of a few pages fragment in another way than
those of hundreds, and large blocks among them would hide that."""

LEAST = 64 * MIB
"""Live bytes of a program that counts: below, the size of a page is all that is measured."""

Program = tuple[tuple[int, int], ...]
"""Pairs of bytes and lifetime; see `loops.job.ProgramJob`."""


def live_peak(program: Program) -> int:
    """The largest sum of blocks that are alive at a time, in bytes.

    Example:
        >>> live_peak(((4, 0), (8, 1), (2, 5)))
        10
    """
    dying: dict[int, int] = {}
    live = peak = 0
    for now, (size, lifetime) in enumerate(program):
        live += size - dying.pop(now, 0)
        end = now + 1 + lifetime
        dying[end] = dying.get(end, 0) + size
        peak = max(peak, live)
    return peak


def drawn_size(chance: random.Random, largest: int) -> int:
    """From 512 bytes to the largest, mostly above 1 MiB, where allocators differ."""
    low = 512 if chance.random() < 0.1 else MIB
    return int(low * (largest / low) ** chance.random()) // 512 * 512


def drawn_request(chance: random.Random, length: int, largest: int) -> tuple[int, int]:
    """A request of a program of that length."""
    return drawn_size(chance, largest), int(length ** chance.random()) - 1


def drawn(chance: random.Random, longest: int) -> Program:
    """A random program, of a random scale and length."""
    length, largest = chance.randint(longest // 8, longest), chance.choice(SCALES)
    return tuple(drawn_request(chance, length, largest) for _ in range(length))


def changed(program: Program, chance: random.Random, longest: int) -> Program:
    """The program with one to four changes."""
    requests = list(program)
    largest = max(size for size, _ in program)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(requests))
        size, lifetime = requests[at]
        kind = chance.randrange(6)
        if kind == 0:
            requests[at] = drawn_size(chance, largest), lifetime
        elif kind == 1:
            requests[at] = size, drawn_request(chance, len(requests), largest)[1]
        elif kind == 2:  # just above or below what was there
            scaled = int(size * chance.uniform(0.8, 1.25)) // 512 * 512
            requests[at] = max(512, scaled), lifetime
        elif kind == 3 and len(requests) < longest:
            requests.insert(at, drawn_request(chance, len(requests), largest))
        elif kind == 4 and len(requests) > 4:
            del requests[at]
        elif kind == 5:  # again what was asked for before, as loops do
            end = min(len(requests), at + chance.randint(1, 8))
            part = requests[at:end]
            requests[end:end] = part[: max(0, longest - len(requests))]
    return tuple(requests)


@dataclass
class Search:
    """What one seed found.

    Args:
        seed: of everything that is drawn.
        ratios: of each program that was measured, in that order.
        worst: the program with the largest ratio, and what was measured under it.
    """

    seed: int
    ratios: list[float] = field(default_factory=list)
    worst: dict[str, Any] = field(default_factory=dict)


def score(live: int, ours: int, theirs: int) -> float:
    """What the search climbs: the logarithm of the ratio, our own waste counted a quarter more.

    Both allocators are perfect under most simple programs. There the ratio is 1, and without the
    quarter nothing would lead away.

    Example:
        >>> score(100, 120, 120) > score(100, 100, 100)
        True
    """
    return 1.25 * math.log(ours / live) - math.log(theirs / live)


def search(
    measure: Callable[[Program, str], int], seed: int, programs: int, longest: int = 128
) -> Search:
    """Looks for the program with the largest ratio of peaks.

    Args:
        measure: bytes of the card that a program takes under `pages` or `expandable`.
        seed: of the search.
        programs: how many are tried; the first fifth of them is random.
        longest: requests of the longest program.
    """
    chance, found = random.Random(seed), Search(seed)
    best, climbed = -math.inf, drawn(chance, longest)
    for number in range(programs):
        if number < max(1, programs // 5):
            program = drawn(chance, longest)
        else:
            program = changed(climbed, chance, longest)
        live = live_peak(program)
        if live < LEAST:
            continue
        ours, theirs = measure(program, "pages"), measure(program, "expandable")
        ratio = ours / theirs
        found.ratios.append(ratio)
        if (reached := score(live, ours, theirs)) >= best:
            best, climbed = reached, program
        if not found.worst or ratio > found.worst["ratio"]:
            found.worst = {
                "ratio": ratio,
                "number": number,
                "live": live,
                "pages": ours,
                "expandable": theirs,
                "program": program,
            }
    return found
