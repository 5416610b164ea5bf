"""Progress of a search, as one line on stderr if stderr is a terminal."""

from typing import Self

from pgmo.cli.terminal.output import console
from pgmo.packing.solving.result import Incumbent
from pgmo.terminal import is_plain, is_terminal
from pgmo.units import format_bytes


class IncumbentLine:
    """Context that displays the best arena, its excess over the bound, the bound and the time.

    The line changes in place, which needs a terminal and escape sequences. NO_COLOR disables it.
    """

    def __init__(self) -> None:
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=console(stderr=True),
            transient=True,
            disable=is_plain() or not is_terminal(),
        )
        self._task = self._progress.add_task("packing")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._progress.stop()

    def show(self, event: Incumbent) -> None:
        """Replace the displayed line."""
        text = (
            f"arena {format_bytes(event.arena)}, {event.above_bound:.2%} above the bound of "
            f"{format_bytes(event.bound)}, by {event.solver}"
        )
        self._progress.update(self._task, description=text)
