"""The demo's table, and what it means in words."""

from collections.abc import Sequence

from pgmo.cli.terminal.output import console
from pgmo.demo.agreement import Agreement
from pgmo.demo.comparison_runs import DemoComparison
from pgmo.units import format_bytes

_IDENTICAL = {
    Agreement.IDENTICAL: "[green]yes[/]",
    Agreement.PLAIN_VARIES: "unknown",
    Agreement.THREADS_VARY: "[green]yes[/], on one thread",
    Agreement.DIFFERENT: "[bold red]NO[/]",
}

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
            _IDENTICAL[row.agreement],
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
    lines = [
        *_verdicts(comparisons),
        "Hits: requests served from the arena. Gap: how far the arena is above the lower bound. "
        "Step time: median",
        "of the steady iterations, default → pgmo. Peak memory: of the whole process, default → "
        "pgmo, pgmo from a saved plan;",
        "without one the first iterations are recorded on PyTorch's own allocator. "
        f"PyTorch {first.torch}, {format_threads(first.threads)} in all runs.",
    ]
    replans = {row.network: row.replans for row in comparisons if row.replans}
    if replans:
        counts = ", ".join(f"{name} {count}" for name, count in replans.items())
        lines.append(f"Plans made again for longer sequences: {counts}.")
    return lines


def _verdicts(comparisons: Sequence[DemoComparison]) -> list[str]:
    """Return one sentence for each result of comparing bits."""
    first = comparisons[0]
    threads = format_threads(first.threads)
    advice = " Compare with --threads 1." if first.threads > 1 else ""
    sentences = {
        Agreement.IDENTICAL: f"Losses of {first.iterations} iterations and final weights are the "
        "same bit for bit, with and without pgmo: {}.",
        Agreement.PLAIN_VARIES: "Plain PyTorch does not repeat itself here: two runs without "
        f"pgmo differ in their last bits: {{}}.{advice}",
        Agreement.THREADS_VARY: f"Some runs differ on {threads}, where PyTorch may add in another "
        "order. On one thread all are the same bit for bit, with and without pgmo: {}.",
        Agreement.DIFFERENT: "Losses or final weights DIFFER between the runs, although plain "
        "PyTorch repeats itself. Please report this as a bug: {}.",
    }
    found = []
    for kind, sentence in sentences.items():
        networks = [row.network for row in comparisons if row.agreement is kind]
        if networks:
            found.append(sentence.format(", ".join(networks)))
    return found


def format_threads(count: int) -> str:
    """Return the number of threads in words.

    Example:
        >>> format_threads(1), format_threads(2)
        ('1 thread', '2 threads')
    """
    return "1 thread" if count == 1 else f"{count} threads"


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
