"""What a search has found so far: one line on stderr, where a person is looking."""

from pgmo.cli.terminal.live import Live
from pgmo.packing.solving.result import Incumbent
from pgmo.units import format_bytes


class IncumbentLine(Live):
    """Shows the best arena, the bound, how far they are apart and the time, until it is left.

    Example:
        >>> with IncumbentLine() as line:
        ...     line.show(Incumbent(0.1, arena=110, bound=100, solver="search"))
    """

    def __init__(self) -> None:
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

        super().__init__(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            transient=True,
        )
        self._task = self.progress.add_task("packing")

    def show(self, event: Incumbent) -> None:
        """Takes the place of what is shown."""
        self.progress.update(self._task, description=in_words(event))


def in_words(event: Incumbent) -> str:
    """An incumbent in one line.

    Example:
        >>> in_words(Incumbent(0.1, arena=110 * 2**20, bound=100 * 2**20, solver="search"))
        'arena 110 MiB, bound 100 MiB, 10.00% above it, by search'
    """
    return (
        f"arena {format_bytes(event.arena)}, bound {format_bytes(event.bound)}, "
        f"{event.gap:.2%} above it, by {event.solver}"
    )
