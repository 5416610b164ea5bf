"""One captured step: a call of a model, compiled, with what its capture assumes."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from weakref import ref

import torch
from torch import Tensor, fx, nn

from pgmo.errors import BudgetError, GraphError, PgmoError
from pgmo.locks import new_reentrant_lock
from pgmo.recompute.capture.compat import compile_joint, flatten, reads_values
from pgmo.recompute.capture.eager import as_in_eager_mode
from pgmo.recompute.capture.flat import FlatModule, Forward, distinct
from pgmo.recompute.capture.graphs import quick_copies
from pgmo.recompute.capture.quiet import without_collector, without_logs
from pgmo.recompute.frozen.places import of_error
from pgmo.recompute.runtime.contexts import compiled_context
from pgmo.recompute.runtime.decide import PlannedStep, Settings
from pgmo.recompute.runtime.execute import StepCompiler
from pgmo.recompute.runtime.pending import Call, Pending
from pgmo.recompute.runtime.stages import stage, stages
from pgmo.units import format_bytes
from pgmo.user_warnings import warn_user

TOLERANCE = 0.02
"""Share by which the measured peak may differ from the predicted one."""

_LIMITS = (
    "A step is captured by running the forward pass on tensors without contents: not all operators "
    "can have sizes that depend on values (unique(), bincount()), and the model's own tensors must "
    "be parameters or buffers. Compile the model with "
    "torch.compile(model, backend=pgmo.recompute.backend(budget)), which captures what lies "
    "between such places"
)

_FIT = (
    "If the model by itself ends so, too, the inputs do not fit it; look at their shapes first. "
    "If it does not, this is the reason:"
)

NOTHING = (
    "nothing in the model needs gradients: there is no backward pass to plan for. Set "
    "requires_grad on the parameters that are trained"
)

CAPTURING = new_reentrant_lock()
"""PyTorch captures in one thread at a time."""


class NothingToPlanError(GraphError):
    """Nothing that a call computes can be differentiated."""


class CapturedCall:
    """A call of a model, compiled: forward and backward pass as planned.

    Args:
        module: the model.
        forward: its forward method.
        arguments: positional and keyword arguments of the call.
        settings: how it is planned.
        pending: the model's calls that wait for their backward pass.

    Attributes:
        devices: of what is given, and of the model.
        reported: whether the first step was compared with the prediction.
    """

    def __init__(
        self,
        module: nn.Module,
        forward: Forward,
        arguments: tuple[tuple[Any, ...], dict[str, Any]],
        settings: Settings,
        pending: Pending,
    ) -> None:
        refuse_arguments(forward, type(module).__name__, arguments)
        self._flat = FlatModule(module, forward, arguments)
        self._tensors = distinct(flatten(arguments)[0])
        self._settings, self._pending = settings, pending
        given = (*self._tensors, *module.parameters(), *module.buffers())
        self.devices = frozenset(one.device for one in given)
        self._beside = 0  # bytes that other calls held during the first step
        self._came: frozenset[str] | None = None
        self._measured: Callable[[], Call | None] = lambda: None
        self.reported = False
        self._compile(StepCompiler(settings))

    def _compile(self, step: StepCompiler) -> None:
        try:
            with CAPTURING, as_in_eager_mode(), _quick_and_quiet():
                self._run = self._captured(step)
        except PgmoError as error:
            # The message says all: dozens of frames of PyTorch's add nothing.
            raise error.with_traceback(None) from error.__cause__
        except torch.OutOfMemoryError as error:
            raise BudgetError(
                f"the step of {self.model} cannot be captured: its forward pass reads values, is "
                "run once without gradients to see them, and does not fit on the card even so. "
                f"Give a smaller batch. PyTorch says: {error}"
            ) from error
        except Exception as error:
            where = of_error(error)
            at = f", at {where}" if where else ""
            advice = _LIMITS if reads_values(error) else f"{_FIT} {_LIMITS}"
            raise GraphError(f"the step cannot be captured: {error}{at}. {advice}") from error
        if step.planned is None:
            raise NothingToPlanError(NOTHING)
        self.step = step
        self.planned: PlannedStep = step.planned

    def _captured(self, step: StepCompiler) -> Callable[..., Any]:
        """Captures; where values are read, once more after they were looked at."""
        stage(f"captures a step of {self.model}")
        try:
            return self._compiled(step)
        except Exception as error:
            if self._flat.observed or not self._settings.observes or not reads_values(error):
                raise
            stage(f"looks which values {self.model} reads")
            self._flat.observe(self._tensors)
            if not self._flat.observed:
                raise
            stage(f"captures a step of {self.model}")
        return self._compiled(step)

    def _compiled(self, step: StepCompiler) -> Callable[..., Any]:
        """Traces with repeated blocks once; as it is where they are not alike after all."""
        blocks = self._flat.blocks

        def partition(joint: fx.GraphModule, inputs: object, **more: Any) -> Any:
            return step.partition(blocks.expand(joint), inputs, **more)

        compilers = (step.compile_forward, step.compile_backward)
        if blocks:
            try:
                return compile_joint(self._flat, self._tensors, partition, *compilers)
            except Exception:
                if not blocks.differ:
                    raise
        return compile_joint(self._flat, self._tensors, step.partition, *compilers)

    @property
    def model(self) -> str:
        """Name of the model's class."""
        return type(self._flat.module).__name__

    @property
    def device(self) -> str:
        """Where the model's parameters are, such as "cuda:0"."""
        first = next(self._flat.module.parameters(), None)
        return "cpu" if first is None else str(first.device)

    @property
    def measured(self) -> int | None:
        """Bytes that the first step took, with what other calls held during it."""
        alone = self.step.measured
        return None if alone is None else alone + self._beside

    @property
    def has_checks(self) -> bool:
        """Whether the forward pass may end with a `DiffersError`."""
        return self.step.checks > 0

    def nested(self, tensors: Sequence[Tensor]) -> Any:
        """What forward returns, made of other tensors."""
        return self._flat.nested(tensors)

    @property
    def registered(self) -> list[Tensor]:
        """The parameters and buffers that the captured graph is given, by all their names."""
        parameters = [one for _, one in self._flat.named_parameters(remove_duplicate=False)]
        return [*parameters, *(one for _, one in self._flat.named_buffers(remove_duplicate=False))]

    @property
    def differentiable(self) -> tuple[bool, ...]:
        """Of each tensor that forward returns, whether it has a derivative."""
        return self._flat.differentiable

    def check(self) -> None:
        """Looks whether what Python code has read is as it was.

        Raises:
            GraphError: something is not; says what, and the line that reads it.
        """
        self._flat.guard.check()

    def release(self) -> None:
        """Lets go of the example: what is captured needs its looks only."""
        self._tensors = []

    def __call__(self, tensors: list[Tensor]) -> Any:
        """Runs the forward pass; the second call looks at what the first one took.

        Raises:
            DiffersError: a value of a tensor is not what was assumed. Nothing was written, but
                random numbers may have been drawn.
        """
        self._follow(tensors)
        alone = self.step.measured
        if alone is not None and not self.reported:
            self.reported = True
            self._compare(alone, tensors)
        if self._pending:
            self._note_others()
        step = self.step
        if step.backward is None and self._measured() is None:
            step.forward = None  # its results are gone without a backward pass: measure another one
        first = step.forward is None
        results = self._run(*tensors)
        context = compiled_context([one for one in results if isinstance(one, Tensor)])
        if context is not None:
            context.set_materialize_grads(False)  # what nobody differentiates stays None
            held = step.forward.net if step.forward else 0
            # The backward pass of another call frees what was not seen to come.
            call = self._pending.add(context, held, lambda: setattr(step, "is_measured", first))
            if first:
                self._measured = ref(call)
        return self._flat.nested(results)

    def _follow(self, tensors: list[Tensor]) -> None:
        """Plans again when other outputs are differentiated than was expected."""
        came = self.step.came
        if came is None or came == self._came:
            return
        first, self._came = self._came is None, came | (self._came or frozenset())
        expected = self.step.expected or frozenset()
        if self._came == expected or (not first and self._came <= expected):
            return
        self._again(StepCompiler(self._anew, expected=self._came), tensors)

    def _note_others(self) -> None:
        """Other calls wait for their backward pass, and all hold what they have saved."""
        if self.step.forward is None or self.step.backward is not None:
            return
        self._beside = max(self._beside, self._pending.held)
        if self._pending.told:
            return
        self._pending.told = True
        warn_user(
            f"the model is called again before the backward pass of an earlier call, which holds "
            f"{format_bytes(self._pending.held)} until then. The budget is that of one call with "
            "its backward pass: each call that waits takes so much more. Give the inputs to one "
            "call (torch.cat), call backward() before the next call, or give a smaller budget"
        )

    def _compare(self, measured: int, tensors: list[Tensor]) -> None:
        again = self.step.news and self._settings.measure
        if compare(measured, self.planned.schedule.peak, again) and again:
            self._again(StepCompiler(self._anew, expected=self.step.expected), tensors)

    @property
    def _anew(self) -> Settings:
        return replace(self._settings, anew=True)

    def _again(self, step: StepCompiler, tensors: list[Tensor]) -> None:
        """Captures and plans again; what there was stays if that cannot be."""
        self._tensors = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in tensors]
        try:
            self._compile(step)
        except BudgetError as error:
            warn_user(f"the first plan stays: {error}")
        self.release()


@contextmanager
def _quick_and_quiet() -> Iterator[None]:
    with stages(), without_logs(), without_collector(), quick_copies():
        yield


def compare(measured: int, predicted: int, again: bool = False) -> bool:
    """Warns where a step took more or less than was predicted; whether it did.

    Args:
        measured: bytes at its peak.
        predicted: bytes.
        again: whether it is planned again.
    """
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


def reason_of(error: GraphError) -> str:
    """What cannot be captured, and where: the message without its advice."""
    return str(error).partition(f". {_FIT}")[0].partition(f". {_LIMITS}")[0]


def refuse_arguments(
    forward: Forward, name: str, arguments: tuple[tuple[Any, ...], dict[str, Any]]
) -> None:
    try:
        known = inspect.signature(forward)
    except (TypeError, ValueError):
        return
    try:
        known.bind(*arguments[0], **arguments[1])
    except TypeError as error:
        names = ", ".join(str(one) for one in known.parameters.values())
        raise GraphError(
            f"{name}.forward cannot be called with these inputs: {error}. It takes ({names}): give "
            "a tuple of positional arguments, or a dictionary of keyword arguments"
        ) from None
