"""What a search has found so far: one line on stderr, where a person is looking."""

from typing import Self

from pgmo.cli.terminal.output import console
from pgmo.packing.solving.result import Incumbent
from pgmo.terminal import plain, watched
from pgmo.units import format_bytes


class IncumbentLine:
    """Shows the best arena, the bound, how far they are apart and the time, until it is left.

    A line that changes in its place needs escape sequences, so with NO_COLOR there is none.
    """

    def __init__(self) -> None:
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=console(stderr=True),
            transient=True,
            disable=plain() or not watched(),
        )
        self._task = self._progress.add_task("packing")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._progress.stop()

    def show(self, event: Incumbent) -> None:
        """Takes the place of what is shown."""
        self._progress.update(self._task, description=in_words(event))


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
