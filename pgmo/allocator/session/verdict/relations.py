"""Relations that hold between the figures of a verdict, whatever a program does.

A figure that contradicts another one is an error of pgmo. A verdict with such a figure compares
nothing, and tests fail on it.
"""

from collections.abc import Iterator

from pgmo.allocator.adapters.baseline import Baseline
from pgmo.units import format_bytes


def contradictions(baseline: Baseline) -> tuple[str, ...]:
    """Return the relations that the figures of a device violate, each as a clause.

    Example:
        >>> from dataclasses import replace
        >>> right = Baseline(9, 9, 5, 5, 7, 7, card=10, requests=1, retries=0, failures=0, broken=0)
        >>> contradictions(right)
        ()
        >>> contradictions(replace(right, peak_taken=11, taken=11))
        ('taken 11 B, but the card has 10 B',)
    """
    return tuple(_of_device(baseline))


def _of_device(one: Baseline) -> Iterator[str]:
    def above(name: str, size: int, limit_name: str, limit: int) -> Iterator[str]:
        if size <= limit:
            return
        figures = format_bytes(size), format_bytes(limit)
        if figures[0] == figures[1]:
            figures = f"{size:,} bytes", f"{limit:,} bytes"
        yield f"{name} {figures[0]}, but {limit_name} {figures[1]}"

    yield from above("taken", one.peak_taken, "the card has", one.card)
    yield from above("modelled", one.peak_reserved, "the card has", one.card)
    if not one.failures and not one.broken:
        yield from above("live", one.peak_live, "modelled", one.peak_reserved)
    if not one.slept:
        yield from above("live", one.peak_live, "taken", one.peak_taken)
    yield from above("taken now", one.taken, "at most", one.peak_taken)
