"""Stands in the place of a model's forward method: compiled by Dynamo, planned step by step.

kind of call      shapes, types, modes of the arguments
a new kind        a step of which nothing stays is run, and planned
another graph     Dynamo's guards ask for one in the middle of a step: it is planned by itself, and
                  the next call of that kind is planned anew
"""

import inspect
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Any

import torch
import torch._dynamo as dynamo
from torch import Tensor, fx, nn
from torch._functorch import config as functorch_config

from pgmo.error_frames import clear_frames, clears_frames
from pgmo.errors import BudgetError, GraphError, PgmoError
from pgmo.recompute.capture.compat import flatten, is_capturing
from pgmo.recompute.capture.eager import as_in_eager_mode
from pgmo.recompute.capture.flat import distinct, look_of_call
from pgmo.recompute.capture.graphs import quick_copies
from pgmo.recompute.capture.quiet import without_collector, without_logs
from pgmo.recompute.compiled.breaks import Breaks
from pgmo.recompute.compiled.discovery import Arguments, discover, warm_up
from pgmo.recompute.compiled.dynamo import as_plain_model
from pgmo.recompute.compiled.graph import CompiledGraph, Running
from pgmo.recompute.compiled.planned import StepPlan, plan
from pgmo.recompute.frozen.hooks import refuse_global_hooks
from pgmo.recompute.frozen.places import of_error
from pgmo.recompute.runtime.call import CAPTURING, NOTHING, NothingToPlanError, refuse_arguments
from pgmo.recompute.runtime.decide import PlannedStep, Settings
from pgmo.recompute.runtime.stages import stage, stages
from pgmo.user_warnings import warn_user


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
        self._breaks = Breaks()
        self._messages: set[str] = set()
        self._graphs = 0  # captured so far
        with suppress(TypeError, ValueError):
            self.__signature__ = inspect.signature(module.forward)
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
        self._breaks.note(module)
        with as_in_eager_mode(), functorch_config.patch(**_AOT), quick_copies():
            graph = CompiledGraph(module, inputs, self.settings, self._running)
        made: Callable[..., Any] = dynamo.disable(graph)  # type: ignore[no-untyped-call]
        return made

    @clears_frames
    def capture(self, *arguments: Any, **keywords: Any) -> CompiledStep:
        """Capture and plan a call, unless one like it was before.

        Raises:
            BudgetError: the budget cannot be met.
            GraphError: there is nothing to plan, or it cannot be captured.
        """
        step = self._step((arguments, keywords))
        if step is None:
            raise NothingToPlanError(NOTHING)
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
                made = self._captured(arguments)
            except NothingToPlanError:
                self._steps[key] = None
                return None
        self._steps[key] = made
        self.first = self.first or made
        return made

    def _captured(self, arguments: Arguments) -> CompiledStep:
        """Capture and plan a call.

        Raises:
            BudgetError: the budget cannot be met.
            GraphError: it cannot be captured.
            NothingToPlanError: nothing in it can be differentiated.
        """
        refuse_arguments(self.plain, type(self._module).__name__, arguments)
        self._breaks.clear()
        try:
            if self.first is None:
                warm_up(self._module, self.plain, arguments)
            found = discover(
                self._module, self._run, arguments, self._running(), self.settings.measure
            )
            made = CompiledStep(plan(found, self.settings), self._module)
        except PgmoError as error:
            # The message says all: dozens of frames of PyTorch's add nothing.
            raise error.with_traceback(None) from error.__cause__
        except torch.OutOfMemoryError as error:
            raise BudgetError(
                f"the step of {type(self._module).__name__} cannot be captured: its forward pass "
                "is run once without gradients, and does not fit on the card even so. "
                f"Give a smaller batch. PyTorch says: {error}"
            ) from error
        except Exception as error:
            where = of_error(error)
            at = f", at {where}" if where else ""
            raise GraphError(f"the step cannot be captured: {error}{at}. {_FIT}") from error
        self._note_breaks(len(found.calls))
        return made

    def _note_breaks(self, graphs: int) -> None:
        """Warn that the forward pass is several graphs, or raise where that is not wanted."""
        reason = self._breaks.reason
        if reason is None:
            return
        if self.settings.whole:
            raise GraphError(f"the forward pass is no single graph: {reason}")
        self._warn(
            f"the forward pass is no single graph: {reason}. {graphs} "
            f"{'graphs are' if graphs > 1 else 'graph is'} planned under one budget; the code "
            "between them runs as it is. whole=True makes this an error"
        )

    def _warn(self, message: str) -> None:
        if message not in self._messages:
            self._messages.add(message)
            warn_user(message)

    def _run(self, *arguments: Any, **keywords: Any) -> Any:
        with as_plain_model():
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
        try:
            return self._recomputed(arguments, keywords)
        except BaseException as error:
            clear_frames(error)
            del arguments, keywords
            raise

    def _recomputed(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        tensors = distinct(flatten((arguments, keywords))[0])
        given: list[Tensor] = [*tensors, *self._module.parameters(), *self._module.buffers()]
        if not any(one.requires_grad for one in given):
            return self.plain(*arguments, **keywords)
        refuse_global_hooks()
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


_FIT = "If the model by itself ends so, too, the inputs do not fit it; look at their shapes first"

_AOT: dict[str, Any] = {"backward_pass_autocast": "off"}
