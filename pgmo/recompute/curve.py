"""The trade-off of a step: the least overhead found for each of many budgets."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pgmo.errors import BudgetError, OptionError
from pgmo.recompute.graph import Graph
from pgmo.recompute.planning import Choice
from pgmo.recompute.schedule import simulate
from pgmo.units import format_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Point:
    """One plan.

    Args:
        budget: bytes that it was made for.
        peak: bytes that it takes at once.
        overhead: time of what is recomputed, as a share of the forward pass.
        planner: what found it.
    """

    budget: int
    peak: int
    overhead: float
    planner: str


@dataclass(frozen=True)
class Curve:
    """Plans in the order of falling budgets; none is worse than another in both respects.

    Args:
        points: the plans; the first recomputes nothing.
    """

    points: tuple[Point, ...]

    def as_rows(self) -> list[dict[str, Any]]:
        """The points as dictionaries, for JSON or a table."""
        return [
            {
                "budget": one.budget,
                "peak": one.peak,
                "overhead": one.overhead,
                "planner": one.planner,
            }
            for one in self.points
        ]

    def __str__(self) -> str:
        lines = [f"{'peak':>10}  {'overhead':>8}  planner"]
        lines += [
            f"{format_bytes(one.peak):>10}  {100 * one.overhead:>6.1f} %  {one.planner}"
            for one in self.points
        ]
        return "\n".join(lines)

    def plot(self, path: str | os.PathLike[str] | None = None) -> "Figure":
        """Draws overhead over peak; needs matplotlib (`pip install pgmo[report]`).

        Args:
            path: where to save the picture; its ending is the format.

        Raises:
            OptionError: matplotlib is not installed.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise OptionError(
                "the plot needs matplotlib: pip install 'pgmo[report]', or use curve.as_rows()"
            ) from error
        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.add_subplot()
        axes.step(
            [one.peak / 2**20 for one in self.points],
            [100 * one.overhead for one in self.points],
            where="pre",
            marker="o",
        )
        axes.set_xlabel("peak of a step, MiB")
        axes.set_ylabel("recomputed share of the forward pass, %")
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        if path is not None:
            figure.savefig(os.fspath(path))
        return figure


def trade_off(
    graph: Graph, planner: Callable[[Graph, int | Literal["min"]], Choice], points: int
) -> Curve:
    """Plans for budgets that are evenly spaced between the least peak found and the default one.

    Raises:
        OptionError: fewer than two points.
    """
    if points < 2:
        raise OptionError(f"a curve of {points} points: give 2 or more")
    default = simulate(graph).peak
    least = planner(graph, "min")
    found = [Point(default, default, 0.0, "default")]
    for budget in np.linspace(default, least.peak, points)[1:-1]:
        try:
            choice = planner(graph, int(budget))
        except BudgetError:
            continue  # "min" was a lucky search
        found.append(Point(int(budget), choice.peak, choice.overhead, choice.planner))
    found.append(Point(least.peak, least.peak, least.overhead, least.planner))
    return Curve(tuple(_frontier(found)))


def _frontier(found: list[Point]) -> list[Point]:
    """Without points for which another has no higher peak and no more overhead."""
    kept: list[Point] = []
    for one in sorted(found, key=lambda point: (point.overhead, point.peak)):
        if not kept or one.peak < kept[-1].peak:
            kept.append(one)
    return kept
