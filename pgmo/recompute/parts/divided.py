"""A kind of call that is no single graph: its parts are planned together, and run one by one."""

import functools
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, Protocol

import torch
from torch import fx, nn

from pgmo.errors import GraphError, PgmoError
from pgmo.recompute.capture.compat import saving_hooks
from pgmo.recompute.capture.joint_graph import Captured
from pgmo.recompute.parts.answers import Answers
from pgmo.recompute.parts.probe import Known, Probe, part_settings
from pgmo.recompute.parts.run import Arguments
from pgmo.recompute.parts.together import together
from pgmo.recompute.parts.trace import Trace
from pgmo.recompute.planners.evaluator import Choice, Evaluator
from pgmo.recompute.planners.graph import Graph
from pgmo.recompute.planners.planning import plan_choice
from pgmo.recompute.planners.schedule import simulate
from pgmo.recompute.runtime.decide import PlannedStep, Settings, offloads
from pgmo.recompute.runtime.stages import stage, stages
from pgmo.user_warnings import warn_user

PLANS = 8
"""How often a kind of call is planned, for ways through the model that come later."""


class Part(Protocol):
    """What runs in the place of a submodule's forward method."""

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Calls the submodule."""


class DividedCall:
    """A call of a model whose parts are captured.

    Args:
        model: the model.
        arguments: positional and keyword arguments of the call.
        settings: how it is planned.
        reason: why it is no single graph.
        part: makes a part that runs, of a submodule and settings.

    Attributes:
        planned: what was decided for the whole step.
        reason: why it is no single graph.

    Raises:
        BudgetError: the budget cannot be met.
        GraphError: nothing in it can be captured.
    """

    has_checks = False
    measured: int | None = None

    def __init__(
        self,
        model: nn.Module,
        arguments: Arguments,
        settings: Settings,
        reason: str,
        part: Callable[[nn.Module, Settings], Part],
    ) -> None:
        self._model, self._settings, self.reason = model, settings, reason
        self._make = part
        self._paths = {one: path for path, one in model.named_modules() if path}
        self._parts: dict[tuple[nn.Module, int], Part] = {}
        self._made: dict[object, Part] = {}
        self._known = Known()
        self._plans = 0
        self._stale = False
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
        states = self._known.states
        whole = [one for one, state in states.items() if state != "open"]
        inside = {one for module in whole for one in module.modules()}
        unknown = [one for one in self._paths if one not in states and one not in inside]
        parts = [one for one, state in states.items() if state == "part"]
        self._answers = Answers([*parts, *unknown], self._answer)

    def _decide(self, trace: Trace) -> None:
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
            choice = self._choose(whole.graph, budget)
            if budget == "min":
                settings.shapes.note(whole.graph, choice, budget)
        schedule = choice.on(whole.graph)
        captured = _as_captured(whole.graph)
        paths = tuple(dict.fromkeys(one.path for one in trace.calls))
        self.planned = PlannedStep(
            captured, schedule, default, choice.planner, lambda: captured, budget, 0, paths
        )
        for number, call in enumerate(trace.calls):
            flags = self._known.differentiated.get((call.module, call.number))
            own = whole.of_call(number, choice.recomputed)
            key = (call.module, call.record, own)
            if key not in self._made:
                planner = _Decided(call.captured.graph, own)
                part = replace(part_settings(settings, flags), budget="min", planner=planner)
                self._made[key] = self._make(call.module, part)
            self._parts[call.module, call.number] = self._made[key]

    def _choose(self, graph: Graph, budget: int | Literal["min"]) -> Choice:
        settings = self._settings
        known = None if settings.anew else settings.shapes.known(graph, budget)
        if known is not None and known.reruns is None:
            return known
        stage(f"plans for {len(graph.operations):,} operations")
        planner = settings.planner
        if planner is plan_choice or offloads(planner):
            planner = functools.partial(plan_choice, once=True)
        choice = planner(graph, "min" if settings.budget == "min" else budget)
        if choice.reruns is not None:
            raise GraphError(
                "the planner chose reruns, which a model in several parts cannot have: an "
                "operation runs again for its own part alone. Return a Choice without reruns"
            )
        settings.shapes.note(graph, choice, settings.budget)
        return choice

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
        outer = getattr(self._ours, "call", None)
        self._ours.call = _Call()
        try:
            with self._answers.answering():
                return self._model.forward(*arguments[0], **arguments[1])
        finally:
            self._ours.call = outer

    def _answer(
        self, module: nn.Module, forward: Callable[..., Any], given: Any, keywords: dict[str, Any]
    ) -> Any:
        call: _Call = self._ours.call
        number = call.numbers[module]
        call.numbers[module] += 1
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


class _Call:
    """A call that a thread is at."""

    def __init__(self) -> None:
        self.numbers: Counter[nn.Module] = Counter()
        self.hooks = saving_hooks()


class _Decided:
    """A planner that gives what was decided together with other parts."""

    def __init__(self, graph: Graph, chosen: frozenset[int]) -> None:
        self._graph, self._chosen = graph, chosen

    def __call__(self, graph: Graph, _budget: int | Literal["min"]) -> Choice:
        """The choice; of another graph, such as of other inputs, all that can be forgotten."""
        same = graph == self._graph
        chosen = self._chosen if same else frozenset(graph.candidates())
        return Evaluator(graph).candidate(chosen, "together")


def _as_captured(graph: Graph) -> Captured:
    """A graph that is no single one of PyTorch's."""
    nothing = fx.GraphModule({}, fx.Graph())
    empty: frozenset[fx.Node] = frozenset()
    return Captured(graph, nothing, 0, (), {}, {}, empty, empty, frozenset())
