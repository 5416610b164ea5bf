"""What is shown while something runs: on stderr, and only where a person is looking.

Lines that change in their place need escape sequences, so with NO_COLOR there are none.
"""

from typing import TYPE_CHECKING, Self

from pgmo.cli.terminal.output import console
from pgmo.terminal import plain, watched

if TYPE_CHECKING:
    from rich.progress import ProgressColumn


class Live:
    """Lines of rich's progress display, from when the block is entered until it is left.

    Args:
        columns: of each line.
        transient: whether the lines go away at the end.

    Example:
        >>> with Live("{task.description}") as live:
        ...     task = live.progress.add_task("packing")
    """

    def __init__(self, *columns: "str | ProgressColumn", transient: bool = False) -> None:
        from rich.progress import Progress

        self.progress = Progress(
            *columns,
            console=console(stderr=True),
            transient=transient,
            disable=plain() or not watched(),
        )

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.progress.stop()
