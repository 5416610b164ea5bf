"""A kind of call that is no single graph: its parts are planned together, and run one by one."""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Tensor, fx, nn

from pgmo.errors import GraphError, PgmoError
from pgmo.recompute.capture.compat import flatten, saving_hooks
from pgmo.recompute.capture.joint_graph import Captured
from pgmo.recompute.parts.answers import Answers
from pgmo.recompute.parts.decided import Decided, structure
from pgmo.recompute.parts.measure import StepMeasure
from pgmo.recompute.parts.probe import KnownSubmodules, Probe, part_settings
from pgmo.recompute.parts.run import Arguments
from pgmo.recompute.parts.together import together
from pgmo.recompute.parts.trace import StepTrace
from pgmo.recompute.planners.evaluator import Evaluator
from pgmo.recompute.planners.graph import Graph
from pgmo.recompute.planners.schedule import simulate
from pgmo.recompute.runtime.call import compare
from pgmo.recompute.runtime.decide import PlannedStep, Settings, choose
from pgmo.recompute.runtime.stages import stage, stages
from pgmo.user_warnings import warn_user

PLANS = 8
"""How often a kind of call is planned, for ways through the model that come later."""


class Part(Protocol):
    """What runs in the place of a submodule's forward method.

    Attributes:
        calls: that were captured, by their signatures.
    """

    calls: dict[tuple[object, ...], Any]

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Calls the submodule."""


MakePart = Callable[[nn.Module, Settings], Part]
"""Makes a part that runs, of a submodule and settings."""


class DividedCall:
    """A call of a model whose parts are captured.

    Args:
        model: the model.
        arguments: positional and keyword arguments of the call.
        settings: how it is planned.
        reason: why it is no single graph.
        part: makes a part that runs.

    Attributes:
        planned: what was decided for the whole step.
        reason: why it is no single graph.

    Raises:
        BudgetError: the budget cannot be met.
        GraphError: nothing in it can be captured.
    """

    def __init__(
        self,
        model: nn.Module,
        arguments: Arguments,
        settings: Settings,
        reason: str,
        part: MakePart,
    ) -> None:
        self._model, self._settings, self.reason = model, settings, reason
        self._make = part
        self._paths = {one: path for path, one in model.named_modules() if path}
        self._parts: dict[tuple[nn.Module, int], Part] = {}
        self._way: list[tuple[nn.Module, int]] = []  # calls of parts that were planned for
        self._made: dict[object, Part] = {}
        self._known = KnownSubmodules()
        self._plans, self._stale = 0, False
        self._measured: int | None = None
        self._measure: StepMeasure | None = None
        self._ours = threading.local()
        self.devices = frozenset(one.device for one in (*model.parameters(), *model.buffers()))
        self._plan(arguments)

    def _plan(self, arguments: Arguments) -> None:
        self._plans += 1
        self._stale = False
        probe = Probe(self._model, arguments, self._settings, self._known)
        with stages():
            stage(f"looks for parts of {self.model} that can be captured")
            found = probe.find()
            stage(f"runs {self.model} once, to see what lies between its parts")
            trace = probe.measure()
            if [one.record for one in trace.calls] != [one.record for one in found.calls]:
                raise GraphError("the model takes another way each time that it runs")
            self._decide(trace)
        self._watch()
        states = self._known.states
        whole = [one for one, state in states.items() if state != "open"]
        inside = {one for module in whole for one in module.modules()}
        unknown = [one for one in self._paths if one not in states and one not in inside]
        parts = [one for one, state in states.items() if state == "part"]
        self._answers = Answers([*parts, *unknown], self._answer)

    def _watch(self) -> None:
        """Has a step of the plan be measured."""
        self._measured, self._measure = None, None
        if self._settings.check and len(self.devices) == 1:
            self._measure = StepMeasure(next(iter(self.devices)))

    def _decide(self, trace: StepTrace) -> None:
        """Plans for the whole step, and makes the parts that run."""
        settings = self._settings
        finest = [one.captured for one in trace.calls]
        whole = together(trace, [(one, one.graph) for one in finest])
        records = [one.record.planned for one in trace.calls]
        plain = [(one.captured, one.default.graph) for one in records]
        default = simulate(together(trace, plain).graph)
        budget = settings.shapes.limit(whole.graph, settings.budget, default.peak)
        if budget is None:
            choice = Evaluator(whole.graph).candidate(
                whole.of_all([one.forgotten for one in finest]), "marked regions"
            )
        else:
            choice, _ = choose(whole.graph, budget, self._settings)
            if budget == "min":
                settings.shapes.note(whole.graph, choice, budget)
        schedule = choice.on(whole.graph)
        captured = as_captured(whole.graph)
        paths = tuple(dict.fromkeys(one.path for one in trace.calls))
        self.planned = PlannedStep(
            captured, schedule, default, choice.planner, lambda: captured, budget, paths
        )
        self._way = [(call.module, call.number) for call in trace.calls]
        for number, call in enumerate(trace.calls):
            flags = self._known.differentiated.get((call.module, call.number))
            own = whole.of_call(number, choice)
            key = (call.module, call.record, own)
            if key not in self._made:
                planner = Decided(structure(call.captured.graph), own)
                self._made[key] = self._part(call.module, flags, planner)
            self._parts[call.module, call.number] = self._made[key]

    def _part(self, module: nn.Module, flags: tuple[bool, ...] | None, planner: Decided) -> Part:
        settings = part_settings(self._settings, flags)
        return self._make(module, replace(settings, budget="min", planner=planner))

    @property
    def measured(self) -> int | None:
        """Bytes that a real step took at once; None before one was measured."""
        return self._measured if self._measure is None else self._measure.peak

    @property
    def model(self) -> str:
        """Name of the model's class."""
        return type(self._model).__name__

    @property
    def device(self) -> str:
        """Where the model's parameters are, such as "cuda:0"."""
        first = next(self._model.parameters(), None)
        return "cpu" if first is None else str(first.device)

    def check(self) -> None:
        """Python code runs at each call, and each part looks by itself what it has read."""

    def release(self) -> None:
        """It holds no example."""

    def run(self, arguments: Arguments) -> Any:
        """Runs the forward pass of a call of this kind."""
        if self._stale and self._plans < PLANS:
            try:
                self._plan(arguments)
            except PgmoError as error:
                self._plans = PLANS
                warn_user(f"the first plan stays: {error}")
        measure = self._measure
        if measure is not None and measure.peak is not None:
            self._measured, self._measure = measure.peak, None
            compare(measure.peak, self.planned.schedule.peak)
        if measure is not None:
            measure.cancel()
        outer = getattr(self._ours, "call", None)
        self._ours.call = _Call()
        try:
            with self._answers.answering():
                measure = self._measure
                if measure is None:
                    return self._forward(arguments)
                if not self._can_be_measured(arguments):
                    result = self._forward(arguments)
                    measure.note(result)
                    return result
                captured = self._captured()
                leaves = (*self._model.parameters(), *_tensors(arguments))
                result = measure.forward(lambda: self._forward(arguments), leaves)
                if self._ours.call.way != self._way or self._captured() != captured:
                    measure.cancel()  # the plan is of another one
                return result
        finally:
            self._ours.call = outer

    def _forward(self, arguments: Arguments) -> Any:
        return self._model.forward(*arguments[0], **arguments[1])

    def _captured(self) -> int:
        return sum(len(one or ()) for part in self._parts.values() for one in part.calls.values())

    def _can_be_measured(self, arguments: Arguments) -> bool:
        """Whether a step takes what one alone does: all parts are captured, gradients are new."""
        assert self._measure is not None
        return (
            self._measure.tries > 0
            and all(one.calls for one in self._parts.values())
            and all(one.grad is None for one in self._model.parameters())
            and all(one.grad_fn is None for one in _tensors(arguments))
        )

    def _answer(
        self, module: nn.Module, forward: Callable[..., Any], given: Any, keywords: dict[str, Any]
    ) -> Any:
        call: _Call = self._ours.call
        number = call.numbers[module]
        call.numbers[module] += 1
        call.way.append((module, number))
        part = self._parts.get((module, number))
        if part is None and number:
            part = self._parts.get((module, 0))  # a loop that goes on for longer
        with self._answers.away(module):
            if not torch.is_grad_enabled() or saving_hooks() != call.hooks:
                return forward(*given, **keywords)  # torch.utils.checkpoint runs it again as it is
            if part is None:
                self._stale = True
                return forward(*given, **keywords)
            return part(*given, **keywords)


def _tensors(arguments: Arguments) -> list[Tensor]:
    return [one for one in flatten(arguments)[0] if isinstance(one, Tensor)]


class _Call:
    """A call that a thread is at."""

    def __init__(self) -> None:
        self.numbers: Counter[nn.Module] = Counter()
        self.way: list[tuple[nn.Module, int]] = []
        self.hooks = saving_hooks()


def as_captured(graph: Graph) -> Captured:
    """A graph that is no single one of PyTorch's."""
    nothing = fx.GraphModule({}, fx.Graph())
    empty: frozenset[fx.Node] = frozenset()
    return Captured(graph, nothing, 0, (), {}, {}, empty, empty, frozenset())
