"""Progress bars of the demo, on stderr and only where a person is looking."""

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pgmo.cli.output import console
from pgmo.demo.compare import RUNS, Observer

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class ComparisonProgress:
    """One bar per network that is being trained or has been.

    Example:
        >>> with ComparisonProgress(["gpt"], iterations=20) as progress:
        ...     progress.observer("gpt").step(1)
    """

    def __init__(self, networks: Sequence[str], iterations: int) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._iterations = iterations
        self._bars: Progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:>3}/{task.total} steps"),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[doing]}"),
            console=console(stderr=True),
            disable=not sys.stderr.isatty(),
        )
        self._tasks = {
            network: self._bars.add_task(network, total=RUNS * iterations, start=False, doing="")
            for network in networks
        }

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def observer(self, network: str) -> Observer:
        """What moves the bar of a network."""
        return _Bar(self._bars, self._tasks[network], self._iterations)


class _Bar:
    def __init__(self, bars: "Progress", task: "TaskID", iterations: int) -> None:
        self._bars, self._task, self._iterations = bars, task, iterations
        self._before = 0

    def run(self, number: int, title: str) -> None:
        if number == 0:
            self._bars.start_task(self._task)
        self._before = number * self._iterations
        self._bars.update(self._task, completed=self._before, doing=title)

    def step(self, done: int) -> None:
        completed = self._before + done
        self._bars.update(self._task, completed=completed)
        if completed >= RUNS * self._iterations:
            self._bars.update(self._task, doing="")

    def message(self, text: str) -> None:
        self._bars.console.print(text, markup=False)
