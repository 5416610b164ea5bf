"""Relations that hold between the figures of a verdict, whatever a program does.

A figure that contradicts another one is an error of pgmo. A verdict with such a figure compares
nothing, and tests fail on it.
"""

from collections.abc import Iterator

from pgmo.allocator.adapters.baseline import Baseline
from pgmo.allocator.session.verdict.summary import Summary
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


def disagreements(summary: Summary) -> tuple[str, ...]:
    """Return the relations that the counters of a session violate, each as a clause.

    Example:
        >>> disagreements(Summary(iterations=3, recorded=3, replayed=0))
        ()
        >>> disagreements(Summary(iterations=3, recorded=3, replayed=1))
        ('3 iterations, of which 3 were recorded and 1 replayed',)
    """
    return tuple(_of_session(summary))


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


def _of_session(one: Summary) -> Iterator[str]:
    phases = one.recorded + one.replayed + one.waited + one.uncounted
    if phases != one.iterations:
        yield (
            f"{one.iterations} iterations, of which {one.recorded} were recorded and "
            f"{one.replayed + one.waited + one.uncounted} replayed"
        )
    if one.run_bytes_hit > one.run_bytes:
        yield (
            f"{format_bytes(one.run_bytes_hit)} from slots, of "
            f"{format_bytes(one.run_bytes)} requested"
        )
    if one.since and not one.replayed and not one.served_while_recording:
        yield f"slots served from iteration {one.since} on, and none served an iteration"
