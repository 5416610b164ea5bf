"""Progress bars of the demo, on stderr and only where a person is looking."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgmo.cli.terminal.live import Live
from pgmo.demo.comparison_runs import RUNS, ComparisonObserver

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class ComparisonProgress(Live):
    """One bar per network that is being trained or has been.

    Example:
        >>> with ComparisonProgress(["gpt"], iterations=20) as progress:
        ...     progress.observer("gpt").step(1)
    """

    def __init__(self, networks: Sequence[str], iterations: int) -> None:
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

        super().__init__(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:>3}/{task.total} steps"),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[doing]}"),
        )
        self._iterations = iterations
        self._tasks = {
            network: self.progress.add_task(network, total=RUNS * iterations, start=False, doing="")
            for network in networks
        }

    def observer(self, network: str) -> ComparisonObserver:
        """What moves the bar of a network."""
        return _Bar(self.progress, self._tasks[network], self._iterations)


class _Bar(ComparisonObserver):
    def __init__(self, bars: "Progress", task: "TaskID", iterations: int) -> None:
        self._bars, self._task, self._iterations = bars, task, iterations
        self._before = 0
        self._total = RUNS * iterations

    def run(self, number: int, title: str) -> None:
        if number == 0:
            self._bars.start_task(self._task)
        self._before = number * self._iterations
        self._total = max(self._total, self._before + self._iterations)
        self._bars.update(self._task, completed=self._before, total=self._total, doing=title)

    def step(self, done: int) -> None:
        completed = self._before + done
        self._bars.update(self._task, completed=completed)
        if completed >= self._total:
            self._bars.update(self._task, doing="")

    def message(self, text: str) -> None:
        self._bars.console.print(text, markup=False)
