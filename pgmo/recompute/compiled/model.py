"""Replacement of a model's forward method, which captures and plans each kind of call.

Calls with one signature are one kind of call (`calls/signature.py`). If Dynamo captures another
graph in the middle of a planned step, this graph runs outside of the plan, and the next call of the
same kind is planned again.
"""

import inspect
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any
from weakref import ref

import torch
import torch._dynamo as dynamo
from torch import Tensor, fx, nn
from torch._functorch import config as functorch_config

from pgmo.error_frames import clear_frames, clears_frames
from pgmo.errors import GraphError
from pgmo.recompute.calls.modes import kernels
from pgmo.recompute.calls.refusals import refuse_hooks, refuse_static_graph, refuse_wrappers
from pgmo.recompute.calls.signature import Arguments, distinct, methods, signature
from pgmo.recompute.capture.compat import MODULE_PREFIX, flatten, is_capturing, is_watched
from pgmo.recompute.capture.eager import as_in_eager_mode
from pgmo.recompute.capture.graphs import quick_copies
from pgmo.recompute.capture.quiet import CAPTURING, without_collector, without_logs
from pgmo.recompute.compiled.dry_run.discover import discover, warm_up
from pgmo.recompute.compiled.dry_run.discovery import CallKey, Discovery
from pgmo.recompute.compiled.dry_run.written import kept
from pgmo.recompute.compiled.dynamo.breaks import noting_graph_breaks
from pgmo.recompute.compiled.dynamo.errors import (
    NOTHING,
    NothingToPlanError,
    error_of_capture,
    refuse_arguments,
    too_many,
)
from pgmo.recompute.compiled.dynamo.settings import (
    as_plain_model,
    capture_anew,
    compiled,
    frames_that_failed,
    is_traced,
    is_within,
    reason_of_capture,
)
from pgmo.recompute.compiled.graph import Choose, CompiledGraph, ThreadStep
from pgmo.recompute.compiled.pending import PendingCalls
from pgmo.recompute.compiled.step import CompiledStep
from pgmo.recompute.runtime.decide import Settings
from pgmo.recompute.runtime.stages import stage, stages
from pgmo.user_warnings import warn_user

if TYPE_CHECKING:
    from types import CodeType


class CompiledModel:
    """Replacement of a model's forward method.

    Attributes:
        first: the first planned step, or None.
        settings: settings of planning.
        steps: planned steps by signature; None for calls with nothing to plan.
    """

    def __init__(self, module: nn.Module, settings: Settings) -> None:
        self._module, self.settings = module, settings
        self.first: CompiledStep | None = None
        self.steps: dict[object, CompiledStep | None] = {}
        self._thread_step = ThreadStep()
        self._messages: set[str] = set()
        self._reason = NOTHING  # Reason of the last None in `steps`.
        self._written: list[Tensor] = []  # Tensors that the forward pass writes.
        self._graphs = 0  # Number of captured graphs.
        self._pending = PendingCalls()
        with suppress(TypeError, ValueError):
            self.__signature__ = inspect.signature(module.forward)
        self._methods = methods(module)
        self._compiled: dict[object, Callable[..., Any]] = {}  # By settings of kernels.
        self._codes: set[CodeType] = set()  # Code that Dynamo has captured.

    @property
    def plain(self) -> Callable[..., Any]:
        """The model's own forward method."""
        return self._module.forward

    def capture_graph(self, module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Capture a graph for Dynamo; return a function that runs it."""
        self._graphs += 1
        _name_modules(module, self._module)
        with as_in_eager_mode(), functorch_config.patch(**_AOT), quick_copies():
            graph = CompiledGraph(module, inputs, self.settings, self._thread_step)
        made: Callable[..., Any] = dynamo.disable(graph)  # type: ignore[no-untyped-call]
        return made

    @clears_frames
    def capture(self, *arguments: Any, **keywords: Any) -> CompiledStep:
        """Return the planned step for a call. The first call of a kind is captured and planned.

        Raises:
            BudgetError: if no plan fits the budget, or memory runs out.
            GraphError: if the call cannot be captured.
            NothingToPlanError: if there is nothing to plan.
        """
        step = self._step((arguments, keywords))
        if step is None:
            raise NothingToPlanError(self._reason)
        return step

    def _step(self, arguments: Arguments) -> CompiledStep | None:
        refuse_hooks(self._module)
        if methods(self._module) != self._methods:
            self._begin_anew()
            self.steps.clear()
        key = signature(self._module, arguments)
        step = self.steps.get(key)
        if key in self.steps and (step is None or not step.is_stale()):
            return step
        with CAPTURING, ExitStack() as stack:
            for one in (stages(), without_logs(), without_collector(), quick_copies()):
                stack.enter_context(one)
            stage(f"captures a step of {type(self._module).__name__}")
            try:
                step = self._captured(arguments, step)
            except NothingToPlanError as error:
                step, self._reason = None, str(error)
        # The signature may have changed: PyTorch sets, for example, the order of kernels at first
        # use.
        self.steps[signature(self._module, arguments)] = step
        self.first = self.first or step
        return step

    def _captured(self, arguments: Arguments, step: CompiledStep | None) -> CompiledStep:
        """Capture and plan a call, or plan its known `step` again."""
        refuse_wrappers(self._module)
        refuse_arguments(self.plain, type(self._module).__name__, arguments)
        try:
            if self.first is None:
                refuse_static_graph()
                with as_plain_model(self._codes):
                    self._written = warm_up(self._module, self.plain, arguments)
            if step is not None:
                step.plan_again(lambda: self._discover(arguments, step.wanted))
                return step
            with noting_graph_breaks() as breaks:
                found = self._discover(arguments, None)
            made = CompiledStep(self._module, self.settings, self._pending, found)
        except Exception as error:
            reported = error_of_capture(error, type(self._module).__name__)
            raise reported from (None if reported is error else error)
        self._report_breaks(breaks, found)
        return made

    def _discover(self, arguments: Arguments, wanted: frozenset[int] | None) -> Discovery:
        """Return the record of the first dry run that captures no new graph, or of the last one."""
        thread_step = self._thread_step
        plain: frozenset[CallKey] = frozenset()
        for number in range(_TRIES):
            graphs, measures = self._graphs, number > 0 and self.settings.measure
            with kept(self._written):
                found = discover(
                    self._module, self._run, arguments, thread_step, measures, wanted, plain
                )
            plain |= found.objections.keys()
            for reason in filter(None, dict.fromkeys(found.objections.values())):
                self._warn(f"a graph runs unchanged, without recomputation, because {reason}")
            if (self._graphs, self.settings.measure, found.plain) == (graphs, measures, plain):
                break
        return found

    def _report_breaks(self, breaks: list[str], found: Discovery) -> None:
        """Warn if the forward pass is not a single graph; with `whole`, raise GraphError."""
        if not breaks and found.is_single:
            return
        unseen = "some code is not captured"
        reason, graphs = next(iter(breaks), unseen), len(found.calls)
        if self.settings.whole:
            raise GraphError(f"whole=True: the forward pass is not a single graph: {reason}")
        self._warn(
            f"the forward pass is not a single graph: {reason}. {graphs} "
            f"{'graphs are' if graphs > 1 else 'graph is'} planned under one budget; other code "
            "runs unchanged. whole=True makes this an error"
        )

    def _warn(self, message: str) -> None:
        if message not in self._messages:
            self._messages.add(message)
            warn_user(message)

    def _run(self, *arguments: Any, **keywords: Any) -> Any:
        failures, settings = frames_that_failed(), kernels()
        made = self._compiled.get(settings)
        if made is None:
            made = self._compiled[settings] = compiled(self.plain, _backend(self))
        with as_plain_model(self._codes):
            try:
                return made(*arguments, **keywords)
            except BaseException as error:
                if frames_that_failed() != failures:
                    self._begin_anew(error)
                raise

    def _begin_anew(self, error: BaseException | None = None) -> None:
        capture_anew(self._codes, error)
        self._methods = methods(self._module)
        self._compiled.clear()

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the model."""
        if not torch.is_grad_enabled() or is_traced() or is_within() or is_capturing():
            return self.plain(*arguments, **keywords)
        if is_watched():
            self._warn(
                f"{type(self._module).__name__} runs unchanged, without recomputation: while a "
                "TorchDispatchMode is active, Dynamo compiles nothing"
            )
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
        step = self._step((arguments, keywords))
        if step is None:
            return self.plain(*arguments, **keywords)
        if step.captures >= MOST_CAPTURES:
            raise too_many(type(self._module).__name__, step.captures, reason_of_capture())
        thread_step, graphs = self._thread_step, self._graphs

        def forward(choose: Choose) -> Any:
            before, thread_step.choose = thread_step.choose, choose
            try:
                return self._run(*arguments, **keywords)
            finally:
                thread_step.choose = before

        try:
            return step.run(forward, tensors)
        finally:
            step.captures += self._graphs != graphs


def _backend(model: CompiledModel) -> Callable[..., Any]:
    """Return `capture_graph` of a weakly referenced model, because Dynamo outlives the model."""
    weak = ref(model)

    def capture_graph(module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        model = weak()
        assert model is not None
        return model.capture_graph(module, inputs)

    return capture_graph


def _name_modules(graph: fx.GraphModule, model: nn.Module) -> None:
    """Let the module paths in a graph's nodes begin at the model, not at the captured function."""
    paths = {str(id(one)): path for path, one in model.named_modules()}
    for node in graph.graph.nodes:
        stack = node.meta.get("nn_module_stack")
        if stack:
            node.meta["nn_module_stack"] = {
                key: (paths.get(key.partition("@")[0], MODULE_PREFIX.sub("", path)), kind)
                for key, (path, kind) in stack.items()
            }


_AOT: dict[str, Any] = {"backward_pass_autocast": "off"}

MOST_CAPTURES = 64
"""Maximum number of steps of one kind of call that capture graphs again. After these steps, calls
of this kind raise GraphError."""

_TRIES = 8
"""Maximum number of dry runs to plan a kind of call. The last dry run is used even if it captures
graphs."""
