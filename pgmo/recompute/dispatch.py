"""The forward method of a model that recomputes: one captured step for each kind of call."""

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from pgmo.errors import BudgetError, GraphError, PgmoError
from pgmo.recompute.compat import compile_joint, flatten, is_capturing
from pgmo.recompute.decide import Planned, Settings
from pgmo.recompute.execute import Step
from pgmo.recompute.flat import FlatModule, Forward, signature
from pgmo.units import format_bytes

TOLERANCE = 0.02
"""Share by which the measured peak may differ from the predicted one."""

_LIMITS = (
    "A step is captured by running the forward pass on tensors without contents: it cannot depend "
    "on values of tensors (.item(), `if x.sum() > 0`), and the model's own tensors must be "
    "parameters or buffers. Compile the model with "
    "torch.compile(model, backend=pgmo.recompute.backend(budget)), which captures what lies "
    "between such places, or use pgmo.recompute.segments"
)


class CapturedCall:
    """A call of a model, compiled: forward and backward pass as planned."""

    def __init__(
        self,
        module: nn.Module,
        forward: Forward,
        arguments: tuple[tuple[Any, ...], dict[str, Any]],
        settings: Settings,
    ) -> None:
        self._flat = FlatModule(module, forward, arguments)
        self._tensors = [leaf for leaf in flatten(arguments)[0] if isinstance(leaf, Tensor)]
        self._settings = settings
        self.reported = False
        self._compile()

    def _compile(self) -> None:
        step = Step(self._settings)
        try:
            self._run = compile_joint(
                self._flat,
                self._tensors,
                step.partition,
                step.compile_forward,
                step.compile_backward,
            )
        except PgmoError:
            raise
        except Exception as error:
            raise GraphError(f"the step cannot be captured: {error}. {_LIMITS}") from error
        if step.planned is None:
            raise GraphError(
                "nothing in the model needs gradients: there is no backward pass to plan for. Set "
                "requires_grad on the parameters that are trained"
            )
        self.step = step
        self.planned: Planned = step.planned

    @property
    def model(self) -> str:
        """Name of the model's class."""
        return type(self._flat.module).__name__

    @property
    def device(self) -> str:
        """Where the model's parameters are, such as "cuda:0"."""
        first = next(self._flat.module.parameters(), None)
        return "cpu" if first is None else str(first.device)

    def release(self) -> None:
        """Lets go of the example: what is captured needs its looks only."""
        self._tensors = []

    def __call__(self, tensors: list[Tensor]) -> Any:
        """Runs the forward pass; the second call looks at what the first one took."""
        measured = self.step.measured
        if measured is not None and not self.reported:
            self.reported = True
            self._compare(measured, tensors)
        return self._flat.nested(self._run(*tensors))

    def _compare(self, measured: int, tensors: list[Tensor]) -> None:
        predicted = self.planned.schedule.peak
        if abs(measured - predicted) <= TOLERANCE * max(predicted, 1):
            return
        again = self.step.news and self._settings.measure
        if again:
            advice = "It is planned again with what its operators took"
        elif measured > predicted:
            advice = "Give a smaller budget if that is too much"
        else:
            advice = "A plan for a larger budget may recompute less, and fit as well"
        warnings.warn(
            f"a step took {format_bytes(measured)} at its peak; {format_bytes(predicted)} were "
            f"predicted. {advice}",
            stacklevel=4,
        )
        if not again:
            return
        before = self.step
        self._tensors = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in tensors]
        try:
            self._compile()
        except BudgetError as error:
            self.step = before
            warnings.warn(f"the first plan stays: {error}", stacklevel=4)
        self.release()


class Recomputing:
    """Stands in the place of a model's forward method.

    Calls without gradients, and calls inside another capture, go to the model as it is. Each kind
    of other call (shapes, types, modes) is captured and planned when it first comes.
    """

    def __init__(self, module: nn.Module, forward: Forward, settings: Settings) -> None:
        self._module, self.plain, self._settings = module, forward, settings
        self.calls: dict[tuple[object, ...], CapturedCall] = {}

    def __getstate__(self) -> dict[str, Any]:
        """For copies, also those in files: they have other parameters, and capture anew."""
        return {**self.__dict__, "calls": {}}

    def capture(self, *arguments: Any, **keywords: Any) -> CapturedCall:
        """Captures and plans a call, unless one like it was before."""
        key = signature(self._module, (arguments, keywords))
        if key not in self.calls:
            self.calls[key] = CapturedCall(
                self._module, self.plain, (arguments, keywords), self._settings
            )
            self.calls[key].release()
        return self.calls[key]

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Calls the model."""
        if not torch.is_grad_enabled() or torch.compiler.is_compiling() or is_capturing():
            return self.plain(*arguments, **keywords)
        leaves = flatten((arguments, keywords))[0]
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        return self.capture(*arguments, **keywords)(tensors)
