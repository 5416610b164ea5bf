"""A different sequence length for each iteration, in a seeded order."""

import random

LONGEST_AT = 10


def varying_lengths(shortest: int, longest: int, count: int, seed: int) -> list[int]:
    """Draws `count` lengths in `[shortest, longest]`, all different as long as there are enough.

    The longest comes at iteration 10 (or last): when a plan has long been made from shorter ones,
    so that a run shows both the replay of changing sizes and the one plan made again.

    Example:
        >>> lengths = varying_lengths(16, 64, 20, seed=0)
        >>> len(set(lengths)), lengths.index(64)
        (20, 10)
    """
    shuffled = random.Random(seed)
    lengths: list[int] = []
    while len(lengths) < count:
        shorter = list(range(shortest, longest))
        shuffled.shuffle(shorter)
        lengths.extend(shorter)
    del lengths[count:]
    if lengths:
        lengths[min(LONGEST_AT, count - 1)] = longest
    return lengths
