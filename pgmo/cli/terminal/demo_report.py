"""The demo's table, and what it means in words."""

from collections.abc import Sequence

from pgmo.cli.terminal.output import console
from pgmo.demo.comparison_runs import DemoComparison
from pgmo.units import format_bytes

LEAST_HIT_RATE = 0.99
WIDEST_GAP = 0.01
"""What a comparison is expected to reach; `shortcomings` tells of less."""


def print_comparisons(comparisons: Sequence[DemoComparison]) -> None:
    """Prints one row per network, then the meaning and the conditions of the measurement."""
    from rich.table import Table

    out = console()
    table = Table(title="Training with PyTorch's allocator and with pgmo", title_justify="left")
    table.add_column("network")
    for heading in ("blocks", "arena", "gap", "hits", "step time", "peak memory"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("identical")
    for row in comparisons:
        table.add_row(
            row.network,
            f"{row.blocks}",
            format_bytes(row.arena),
            f"{row.gap:.2%}",
            _rate(row.hit_rate),
            f"{_milliseconds(row.step_seconds_default)} → "
            f"{_milliseconds(row.step_seconds_pgmo)} ({row.speedup:.2f}x)",
            f"{format_bytes(row.rss_default)} → {format_bytes(row.rss_pgmo)}, "
            f"{format_bytes(row.rss_pgmo_saved_plan)}",
            "[green]yes[/]" if row.identical else "[bold red]NO[/]",
        )
    out.print(table)
    for line in meaning(comparisons):
        out.print(line)


def meaning(comparisons: Sequence[DemoComparison]) -> list[str]:
    """What the table says, in sentences.

    Example:
        >>> meaning([])
        []
    """
    if not comparisons:
        return []
    first = comparisons[0]
    different = [row.network for row in comparisons if not row.identical]
    if different:
        verdict = (
            f"Losses or final weights of {', '.join(different)} DIFFER between the runs: please "
            "report this as a bug."
        )
    else:
        verdict = (
            f"Losses of {first.iterations} iterations and final weights are the same bit for bit, "
            "with and without pgmo."
        )
    lines = [
        verdict,
        "Hits: requests served from the arena. Gap: how far the arena is above the lower bound. "
        "Step time: median",
        "of the steady iterations, default → pgmo. Peak memory: of the whole process, default → "
        "pgmo, pgmo from a saved plan;",
        "without one the first iterations are recorded on PyTorch's own allocator. "
        f"PyTorch {first.torch}, {first.threads} threads in all runs.",
    ]
    replans = {row.network: row.replans for row in comparisons if row.replans}
    if replans:
        counts = ", ".join(f"{name} {count}" for name, count in replans.items())
        lines.append(f"Plans made again for longer sequences: {counts}.")
    return lines


def shortcomings(row: DemoComparison) -> list[str]:
    """What a comparison should have reached and did not, one sentence each.

    Example:
        >>> shortcomings(comparison)  # doctest: +SKIP
        ['gpt: the arena is 4.20% above the lower bound; at most 1% was expected']
    """
    found = []
    for run, rate in (("", row.hit_rate), (" from the saved plan", row.hit_rate_saved_plan)):
        if rate is None:
            found.append(
                f"{row.network}: no hit rate{run}, because no two iterations were replayed; "
                "give more --iterations"
            )
        elif rate < LEAST_HIT_RATE:
            found.append(
                f"{row.network}: only {_rate(rate)} of the requests{run} were served from the "
                f"arena; at least {LEAST_HIT_RATE:.0%} were expected"
            )
    # In bytes, because the gap is rounded: 1010 / 1000 - 1 > 0.01.
    if row.arena - row.max_load > row.max_load * WIDEST_GAP:
        found.append(
            f"{row.network}: the arena is {row.gap:.2%} above the lower bound; at most "
            f"{WIDEST_GAP:.0%} was expected"
        )
    return found


def _rate(value: float | None) -> str:
    """Rounded down, so that 100 % means all."""
    return "-" if value is None else f"{int(value * 10_000) / 100:.2f}%"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"
