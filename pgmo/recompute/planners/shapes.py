"""Reuse of choices for other shapes of a model's calls.

    length 512, first   budget 60 %: 6 GiB of 10      a choice is searched for
    length 384          still 6 GiB                   the same choice, or none if all fits
    length 640          60 % of 13 GiB: 8 GiB         the same choice if it fits, else a search

Graphs with the same forward operations are one kind. A choice for one graph of a kind is evaluated
on another in microseconds, and used if it fits.
"""

from dataclasses import dataclass, field
from typing import Literal

from pgmo.recompute.planners.budget import Budget, Share
from pgmo.recompute.planners.evaluator import Choice, Evaluator
from pgmo.recompute.planners.graph import Graph
from pgmo.recompute.planners.schedule import Reruns, is_at_home, refit

_MOST = 16  # Maximum number of stored choices of one kind of graph; the oldest are dropped.


@dataclass
class _Kind:
    longest: int = 0  # Largest peak of the original model in bytes.
    least: int = 0  # Largest peak of a plan for "min" in bytes.
    choices: list[Choice] = field(default_factory=list)


class Shapes:
    """Choices for the graphs of one model."""

    def __init__(self) -> None:
        self._kinds: dict[object, _Kind] = {}

    def limit(self, graph: Graph, budget: Budget, peak: int) -> int | Literal["min"] | None:
        """Return the budget of a graph in bytes, "min", or None.

        A share refers to the largest `peak` of any graph so far. So a smaller step, for example
        with frozen parameters, is not refused. "min" stays "min" for the first graph of a kind, and
        if `peak` exceeds all earlier peaks of the kind. Otherwise "min" becomes the largest peak of
        the kind's earlier plans for "min".

        Args:
            graph: the step.
            budget: the budget that the user gave.
            peak: peak of the step in the original model in bytes.
        """
        kind = self._kind(graph)
        longer, kind.longest = peak > kind.longest, max(peak, kind.longest)
        if isinstance(budget, Share):
            return budget.of(max(one.longest for one in self._kinds.values()))
        if budget == "min" and kind.least and not longer:
            return kind.least
        return budget

    def known(self, graph: Graph, limit: int | Literal["min"]) -> Choice | None:
        """Return the cheapest stored choice that fits within `limit` bytes, or None.

        If any choice is stored, dropping nothing is considered, too. For "min" the result is None.
        """
        choices = self._kind(graph).choices
        if not choices or limit == "min":
            return None
        evaluator = Evaluator(graph)
        found = [evaluator.candidate((), "default")]
        found += [
            evaluator.candidate(one.recomputed, "another shape")
            if one.reruns is None
            else _moved(graph, one, one.reruns)
            for one in choices
        ]
        fitting = [one for one in found if one.peak <= limit]
        return min(fitting, key=lambda one: (one.overhead, one.peak), default=None)

    def note(self, graph: Graph, choice: Choice, budget: Budget) -> None:
        """Store a choice for other shapes."""
        kind = self._kind(graph)
        if budget == "min":
            kind.least = max(kind.least, choice.peak)
        if not any(_same(choice, one) for one in kind.choices):
            kind.choices = [choice, *kind.choices][:_MOST]

    def _kind(self, graph: Graph) -> _Kind:
        return self._kinds.setdefault(_identity(graph), _Kind())


def _same(one: Choice, other: Choice) -> bool:
    return (one.recomputed, one.reruns, one.offloaded) == (
        other.recomputed,
        other.reruns,
        other.offloaded,
    )


def _moved(graph: Graph, choice: Choice, reruns: Reruns) -> Choice:
    """Return a choice of another shape without the reruns that are impossible in this graph."""
    last = len(graph.operations)
    fitting = tuple(
        (moment, index)
        for moment, index in reruns
        if moment < last and is_at_home(graph, moment, index)
    )
    schedule = refit(graph, fitting, choice.offloaded, choice.transfers)
    return Choice.of(schedule, "another shape")


def _identity(graph: Graph) -> object:
    """Return the key of a kind of graphs: their forward operations without sizes."""
    return tuple(
        (one.name, one.reads, one.writes, one.pinned) for one in graph.operations[: graph.forward]
    )
