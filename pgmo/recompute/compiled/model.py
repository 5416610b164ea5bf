"""Stands in the place of a model's forward method: compiled by Dynamo, planned step by step.

kind of call      shapes, types, modes of the arguments
a new kind        a step of which nothing stays is run, and planned
another graph     Dynamo's guards ask for one in the middle of a step: it is planned by itself, and
                  the next call of that kind is planned anew
"""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
import torch._dynamo as dynamo
from torch import fx, nn
from torch._functorch import config as functorch_config

from pgmo.errors import GraphError, PgmoError
from pgmo.recompute.capture.compat import is_capturing
from pgmo.recompute.capture.eager import as_in_eager_mode
from pgmo.recompute.capture.flat import look_of_call
from pgmo.recompute.capture.graphs import quick_copies
from pgmo.recompute.capture.quiet import without_collector, without_logs
from pgmo.recompute.compiled.discovery import Arguments, discover, warm_up
from pgmo.recompute.compiled.graph import CompiledGraph, Running
from pgmo.recompute.compiled.planned import StepPlan, plan
from pgmo.recompute.runtime.call import CAPTURING, NothingToPlanError
from pgmo.recompute.runtime.decide import PlannedStep, Settings
from pgmo.recompute.runtime.stages import stage, stages

KINDS = 64
"""Graphs that Dynamo keeps of one function; above it a call is refused."""


class CompiledStep:
    """A kind of call, planned.

    Args:
        plan: of the step.
        module: the model.
    """

    def __init__(self, plan: StepPlan, module: nn.Module) -> None:
        self.plan, self._module = plan, module
        self.is_stale = False

    @property
    def planned(self) -> PlannedStep:
        """What was decided for the step."""
        return self.plan.planned

    @property
    def model(self) -> str:
        """Name of the model's class."""
        return type(self._module).__name__

    @property
    def device(self) -> str:
        """Where the model's parameters are, such as "cuda:0"."""
        first = next(self._module.parameters(), None)
        return "cpu" if first is None else str(first.device)

    @property
    def measured(self) -> int | None:
        """Bytes that a real step took at once; None before one was measured."""
        if len(self.plan.numbers) > 1:
            return None
        (((graph, _), number),) = self.plan.numbers.items()
        return graph.halves[number].step.measured


class CompiledModel:
    """Stands in the place of a model's forward method.

    Args:
        module: the model.
        settings: how its steps are planned.

    Attributes:
        first: the step that was planned first; None before.
        settings: how steps are planned.
    """

    def __init__(self, module: nn.Module, settings: Settings) -> None:
        self._module, self.settings = module, settings
        self.first: CompiledStep | None = None
        self._steps: dict[object, CompiledStep | None] = {}
        self._local = threading.local()
        self._graphs = 0  # captured so far
        self._compiled = torch.compile(module.forward, backend=self._capture_graph, dynamic=False)

    @property
    def plain(self) -> Callable[..., Any]:
        """The model's own forward method."""
        return self._module.forward

    def _running(self) -> Running:
        running: Running | None = getattr(self._local, "running", None)
        if running is None:
            running = self._local.running = Running()
        return running

    def _capture_graph(self, module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        self._graphs += 1
        with as_in_eager_mode(), functorch_config.patch(**_AOT), quick_copies():
            graph = CompiledGraph(module, inputs, self.settings, self._running)
        made: Callable[..., Any] = dynamo.disable(graph)  # type: ignore[no-untyped-call]
        return made

    def capture(self, *arguments: Any, **keywords: Any) -> CompiledStep:
        """Capture and plan a call, unless one like it was before.

        Raises:
            BudgetError: the budget cannot be met.
            GraphError: there is nothing to plan, or it cannot be captured.
        """
        step = self._step((arguments, keywords))
        if step is None:
            raise NothingToPlanError("nothing in the model needs gradients")
        return step

    def _step(self, arguments: Arguments) -> CompiledStep | None:
        key = look_of_call(arguments), tuple(one.training for one in self._module.modules())
        step = self._steps.get(key)
        if key in self._steps and (step is None or not step.is_stale):
            return step
        with CAPTURING, ExitStack() as stack:
            for one in (stages(), without_logs(), without_collector()):
                stack.enter_context(one)
            stage(f"captures a step of {type(self._module).__name__}")
            try:
                if self.first is None:
                    warm_up(self._module, self.plain, arguments)
                found = discover(
                    self._module, self._run, arguments, self._running(), self.settings.measure
                )
                made = CompiledStep(plan(found, self.settings), self._module)
            except NothingToPlanError:
                self._steps[key] = None
                return None
        self._steps[key] = made
        self.first = self.first or made
        return made

    def _run(self, *arguments: Any, **keywords: Any) -> Any:
        with dynamo.config.patch(**_DYNAMO):
            try:
                return self._compiled(*arguments, **keywords)
            except dynamo.exc.BackendCompilerFailed as error:
                inner = error.inner_exception
                if isinstance(inner, PgmoError):
                    raise inner.with_traceback(None) from None
                raise GraphError(f"the step cannot be captured: {inner}") from error

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the model."""
        if not torch.is_grad_enabled() or torch.compiler.is_compiling() or is_capturing():
            return self.plain(*arguments, **keywords)
        step = self._step((arguments, keywords))
        if step is None:
            return self.plain(*arguments, **keywords)
        running, graphs = self._running(), self._graphs
        ordinals: Counter[CompiledGraph] = Counter()

        def choose(graph: CompiledGraph) -> int:
            place = graph, ordinals[graph]
            ordinals[graph] += 1
            return step.plan.numbers.get(place, graph.newest)

        before, running.choose = running.choose, choose
        try:
            return self._run(*arguments, **keywords)
        finally:
            running.choose = before
            step.is_stale = self._graphs != graphs


_AOT: dict[str, Any] = {"backward_pass_autocast": "off"}
_DYNAMO: dict[str, Any] = {
    "recompile_limit": KINDS,
    "accumulated_recompile_limit": 4 * KINDS,
    "fail_on_recompile_limit_hit": True,
}
