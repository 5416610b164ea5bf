"""Planned step of a model, for all calls with one signature."""

import gc
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from pgmo.errors import BudgetError
from pgmo.recompute.compiled.dry_run.discovery import (
    CallKey,
    Discovery,
    nodes_of,
    note_gradients,
    results_of,
)
from pgmo.recompute.compiled.graph import Choose, CompiledGraph
from pgmo.recompute.compiled.measure import StepMeasure
from pgmo.recompute.compiled.pending import PendingCalls
from pgmo.recompute.compiled.plan.planned import plan
from pgmo.recompute.runtime.decide import PlannedStep, Settings
from pgmo.units import format_bytes
from pgmo.user_warnings import warn_user

TOLERANCE = 0.02
"""Share of the predicted peak by which the measured peak may differ without a warning."""

PLANS = 8
"""Maximum number of times that a step is planned again because it ran other graphs."""


class CompiledStep:
    """Planned step for one kind of call: all calls with one signature.

    With `settings.measure`, the peak of a step is measured and compared with the prediction. If
    the two differ, a second step is measured.

    Attributes:
        planned: the captured step with its schedule.
        captures: number of steps that captured graphs again.
    """

    planned: PlannedStep

    def __init__(
        self, module: nn.Module, settings: Settings, pending: PendingCalls, found: Discovery
    ) -> None:
        self._module, self._settings, self._pending = module, settings, pending
        self._differentiated: set[int] = set()  # Indices of results that got gradients.
        self._checked: frozenset[int] = frozenset()  # `_differentiated` when `is_stale` last ran.
        self._is_compared = self._is_repeated = self._ran_other_graphs = False
        self.captures = 0
        self._plans = 0
        self._numbers: dict[CallKey, int] = {}
        self._plan(found, settings)

    def _plan(self, found: Discovery, settings: Settings) -> None:
        self.planned, numbers = plan(found, settings)
        self._found, self._calls = found, list(numbers)
        self._numbers |= numbers  # Graphs of earlier plans may run again.
        self._measure = StepMeasure(self._device) if settings.measure else None

    @property
    def model(self) -> str:
        """Name of the model's class."""
        return type(self._module).__name__

    @property
    def device(self) -> str:
        """Device of the model's first parameter, such as "cuda:0"; "cpu" without parameters."""
        return str(self._device)

    @property
    def _device(self) -> torch.device:
        first = next(self._module.parameters(), None)
        return torch.device("cpu") if first is None else first.device

    @property
    def measured(self) -> int | None:
        """Measured peak of a step in bytes; None before a measurement."""
        return None if self._measure is None else self._measure.peak

    @property
    def wanted(self) -> frozenset[int] | None:
        """Indices of the results that get gradients; None before the first backward pass."""
        return frozenset(self._differentiated) or None

    def is_stale(self) -> bool:
        """Return whether steps ran other graphs, or differentiated other results, than planned.

        Each set of differentiated results causes at most one new plan, and other graphs cause at
        most `PLANS` new plans.
        """
        is_first, came = not self._checked, frozenset(self._differentiated)
        differs_from_prediction = False
        if came != self._checked:
            self._checked = came
            expected = self._found.differentiated
            differs_from_prediction = came != expected if is_first else not came <= expected
        return differs_from_prediction or (self._ran_other_graphs and self._plans < PLANS)

    def plan_again(self, discovered: Callable[[], Discovery]) -> None:
        """Plan again after a dry run; if no plan fits the budget, keep the old plan and warn."""
        self._plans += 1
        self._ran_other_graphs = False
        try:
            self._plan(discovered(), replace(self._settings, anew=True))
        except BudgetError as error:
            self._plans = PLANS
            warn_user(f"the step cannot be planned again, so the earlier plan is kept: {error}")

    def run(self, forward: Callable[[Choose], Any], given: Iterable[Tensor]) -> Any:
        """Run a forward pass with the input tensors `given`; measure the step if necessary."""
        self._compare()
        self._pending.warn()
        calls: list[CallKey] = []
        result = self._measured(partial(forward, self._chooser(calls)), given, calls)
        results = results_of(result)
        self._pending.add(nodes_of(results))
        note_gradients(results, self._differentiated)
        return result

    def _measured(
        self, forward: Callable[[], Any], given: Iterable[Tensor], calls: list[CallKey]
    ) -> Any:
        """Run a forward pass, which adds its calls of graphs to `calls`; measure it if possible."""
        measure = self._measure
        if measure is None:
            return forward()
        measure.cancel()
        if not self._can_be_measured(given):
            result = forward()
            measure.note(result)
            return result
        gc.collect()  # Garbage of other steps must not be freed during the measurement.
        result = measure.forward(forward, (*self._module.parameters(), *given))
        if calls != self._calls:
            measure.cancel()  # The step ran other graphs than planned.
        return result

    def _chooser(self, calls: list[CallKey]) -> Choose:
        """Return a function that chooses a plan for each call of a graph, and lists the calls."""
        ordinals: Counter[CompiledGraph] = Counter()

        def choose(graph: CompiledGraph) -> int | None:
            place = graph, ordinals[graph]
            ordinals[graph] += 1
            if place in self._found.plain:
                return None
            calls.append(place)
            number = self._numbers.get(place)
            if number is None:
                self._ran_other_graphs = True
                return None if self._found.plain else graph.unplanned
            return number

        return choose

    def _can_be_measured(self, given: Iterable[Tensor]) -> bool:
        assert self._measure is not None
        return (
            self._measure.tries > 0
            and all(one.grad is None for one in self._module.parameters())
            and all(one.grad_fn is None for one in given)
        )

    def _compare(self) -> None:
        """Compare a new measurement with the prediction, and warn if they differ twice."""
        measure = self._measure
        if measure is None or measure.peak is None or measure.tries > 0 or self._is_compared:
            return
        measured, predicted = measure.peak, self.planned.schedule.peak
        differs = abs(measured - predicted) > TOLERANCE * max(predicted, 1)
        if differs and not self._is_repeated:
            # In the first step, libraries may allocate memory that they keep. Measure another step.
            self._is_repeated, measure.tries = True, 1
            return
        self._is_compared = True
        if not differs:
            return
        advice = (
            ". Give a smaller budget if the measured peak is too high"
            if measured > predicted
            else ". With a larger budget, steps may recompute less and still fit"
        )
        warn_user(
            f"a step took {format_bytes(measured)} at its peak; {format_bytes(predicted)} were "
            f"predicted{'' if self.planned.budget is None else advice}"
        )
