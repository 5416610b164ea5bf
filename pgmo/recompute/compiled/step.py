"""A planned kind of call: one of its steps is measured, and planned again if that helps.

first step       each graph is measured operator by operator
second step      measured as a whole, if there are several graphs
step after that  compared with the prediction
"""

import gc
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import ref

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
from pgmo.recompute.compiled.graph import CompiledGraph
from pgmo.recompute.compiled.measure import StepMeasure
from pgmo.recompute.compiled.pending import PendingCall, PendingCalls
from pgmo.recompute.compiled.plan.planned import plan
from pgmo.recompute.runtime.decide import PlannedStep, Settings
from pgmo.units import format_bytes
from pgmo.user_warnings import warn_user

TOLERANCE = 0.02
"""Share by which the measured peak may differ from the predicted one."""

PLANS = 8
"""Maximum number of times that a kind of call is planned again for other graphs."""


Choose = Callable[[CompiledGraph], int | None]
"""Function that returns the number of the plan for a graph's next call; None to run unplanned."""


class CompiledStep:
    """A planned kind of call."""

    def __init__(
        self, module: nn.Module, settings: Settings, pending: PendingCalls, found: Discovery
    ) -> None:
        self._module, self._settings, self._pending = module, settings, pending
        self._came: set[int] = set()  # Places of results that got gradients.
        self._followed: frozenset[int] = frozenset()  # The same when `is_stale` last checked.
        self._is_compared = self._is_left = False
        self.captures = 0
        self._plans = 0
        self._plan(found, settings)

    def _plan(self, found: Discovery, settings: Settings) -> None:
        self.planned, self._numbers = plan(found, settings)
        self._found = found
        self._compilers = [graph.plans[number].step for (graph, _), number in self._numbers.items()]
        self._beside = 0  # Bytes that other calls held during the first step.
        self._first: Callable[[], PendingCall | None] = lambda: None  # The measured call.
        self._has_begun = False  # Whether its backward pass has begun.
        self._measure: StepMeasure | None = None
        if not found.is_single and settings.check:
            self._measure = StepMeasure(self._device)

    planned: PlannedStep
    """Captured step with its schedule."""

    captures: int
    """Number of steps that captured graphs again."""

    @property
    def model(self) -> str:
        """Name of the model's class."""
        return type(self._module).__name__

    @property
    def device(self) -> str:
        """Device of the model's parameters, such as "cuda:0"."""
        return str(self._device)

    @property
    def _device(self) -> torch.device:
        first = next(self._module.parameters(), None)
        return torch.device("cpu") if first is None else first.device

    @property
    def measured(self) -> int | None:
        """Measured peak of a step in bytes, including what other calls held; or None."""
        alone = self._compilers[0].measured if self._measure is None else self._measure.peak
        return None if alone is None else alone + self._beside

    @property
    def wanted(self) -> frozenset[int] | None:
        """Places of the results that get gradients; None before the first backward pass."""
        return frozenset(self._came) or None

    def is_stale(self) -> bool:
        """Return whether other graphs ran, or other results were differentiated, than planned."""
        is_first, came = not self._followed, frozenset(self._came)
        differs_from_prediction = False
        if came != self._followed:
            self._followed = came
            expected = self._found.differentiated
            differs_from_prediction = came != expected if is_first else not came <= expected
        return differs_from_prediction or (self._is_left and self._plans < PLANS)

    def plan_again(self, discovered: Callable[[], Discovery]) -> None:
        """Plan for the current behaviour of steps, or keep the plan if that is impossible.

        `discovered` performs a dry run.
        """
        self._plans += 1
        self._is_left = False
        try:
            self._plan(discovered(), replace(self._settings, anew=True))
        except BudgetError as error:
            self._plans = PLANS
            warn_user(f"the first plan stays: {error}")

    def run(
        self, forward: Callable[[Callable[[CompiledGraph], int | None]], Any], given: Any
    ) -> Any:
        """Run a forward pass, and measure it if it is not measured yet."""
        self._compare()
        self._note_others()
        if self._first() is None:
            for one in self._compilers:
                if one.backward is None:
                    one.forward = None  # Its results were freed without a backward pass.
        is_first = any(one.forward is None for one in self._compilers)
        if is_first and self._settings.check:
            gc.collect()  # Garbage must not be collected during the measurement.
        way: list[CallKey] = []
        choose = self._chooser(way)
        measure = self._measure
        if measure is not None:
            measure.cancel()
        if measure is None:
            result = forward(choose)
        elif self._can_be_measured(given):
            leaves = (*self._module.parameters(), *given)
            result = measure.forward(partial(forward, choose), leaves)
            if way != list(self._numbers):
                measure.cancel()  # The plan is for another sequence of graphs.
        else:
            result = forward(choose)
            measure.note(result)
        self._watch(result, is_first)
        return result

    def _chooser(self, way: list[CallKey]) -> Choose:
        ordinals: Counter[CompiledGraph] = Counter()

        def choose(graph: CompiledGraph) -> int | None:
            place = graph, ordinals[graph]
            ordinals[graph] += 1
            if place in self._found.plain:
                return None
            way.append(place)
            number = self._numbers.get(place)
            if number is None:
                self._is_left = True
                return None if self._found.plain else graph.unplanned
            return number

        return choose

    def _can_be_measured(self, given: Iterable[Tensor]) -> bool:
        """Return whether the step can be measured: gradients are new, inputs have no history."""
        assert self._measure is not None
        return (
            self._has_begun
            and self._measure.peak is None
            and self._measure.tries > 0
            and all(one.grad is None for one in self._module.parameters())
            and all(one.grad_fn is None for one in given)
        )

    def _watch(self, returned: Any, is_first: bool) -> None:
        """Watch for the beginning of the backward pass, and for the results that it starts from."""
        results = results_of(returned)
        held = sum(one.forward.net for one in self._compilers if one.forward is not None)
        call = self._pending.add(nodes_of(results), held, partial(self._begin, is_first))
        if is_first:
            self._first = ref(call)
        note_gradients(results, self._came)

    def _begin(self, is_first: bool) -> None:
        self._has_begun |= is_first
        for one in self._compilers:
            one.is_measured = is_first  # Other backward passes free unseen memory.

    def _note_others(self) -> None:
        """Warn that other calls wait for their backward pass, and hold their saved values."""
        if not self._pending or self._has_begun or self._first() is None:
            return
        self._beside = max(self._beside, self._pending.held)
        if self._pending.warned:
            return
        self._pending.warned = True
        warn_user(
            f"the model is called again before the backward pass of an earlier call, which holds "
            f"{format_bytes(self._pending.held)} until then. The budget is that of one call with "
            "its backward pass: each call that waits takes so much more. Give the inputs to one "
            "call (torch.cat), call backward() before the next call, or give a smaller budget"
        )

    def _compare(self) -> None:
        """Compare the measurement with the prediction, once; plan again if workspaces were new."""
        measured = self.measured
        if measured is None or self._is_compared:
            return
        self._is_compared = True
        can = self._settings.measure and any(one.has_new_workspaces for one in self._compilers)
        alone = measured - self._beside
        differs = differs_from_prediction(alone, self.planned.schedule.peak, can)
        if differs and can:
            self.plan_again(lambda: self._found)


def differs_from_prediction(measured: int, predicted: int, again: bool = False) -> bool:
    """Return whether a step took more or less than predicted, with a warning if it did."""
    if abs(measured - predicted) <= TOLERANCE * max(predicted, 1):
        return False
    if again:
        advice = "It is planned again with what its operators took"
    elif measured > predicted:
        advice = "Give a smaller budget if that is too much"
    else:
        advice = "A plan for a larger budget may recompute less, and fit as well"
    warn_user(
        f"a step took {format_bytes(measured)} at its peak; {format_bytes(predicted)} were "
        f"predicted. {advice}"
    )
    return True
