"""Budget of a step from the memory of a card.

    usable        total memory, as CUDA reports it
    - context     of CUDA, its libraries and other programs
    - resident    parameters, buffers, example inputs
    - beside      bytes that the user keeps free
    - optimizer   its state, also before the first step; nothing if the state is on the host
    - packing     memory lost to fragmentation
    = budget      activations, gradients, workspaces

While the optimizer runs, there are no activations. At that time, the optimizer's state, its
temporary memory and the gradients must fit.
"""

import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.optim import Optimizer
from torch.utils._python_dispatch import TorchDispatchMode

from pgmo.cards import Card
from pgmo.error_frames import clears_dispatch
from pgmo.errors import BudgetError, OptionError
from pgmo.recompute.capture.compat import fakes, storage_key
from pgmo.units import format_bytes

CONTEXT = 512 << 20
"""Minimum bytes assumed for CUDA's context with cuBLAS and cuDNN, which usually take less."""

PACKING = 0.01
"""Share of the card assumed to be lost to fragmentation. With `pgmo run`, less is lost."""

_GRAIN = 512  # Granularity of PyTorch's allocator on CUDA, in bytes.


@dataclass(frozen=True)
class OptimizerNeeds:
    """Bytes of an optimizer's state, and peak of the bytes that its step allocates in addition."""

    state: int
    transient_bytes: int


def optimizer_needs(optimizer: Optimizer) -> OptimizerNeeds:
    """Return the memory of an optimizer's step, measured on fake tensors without side effects.

    Raises:
        OptionError: if the step fails, for example because it needs a closure.

    Example:
        >>> weight = torch.nn.Parameter(torch.zeros(1024))
        >>> optimizer_needs(torch.optim.Adam([weight], foreach=False)).state
        8704
    """
    twin: Any = object.__new__(type(optimizer))
    own = {name: one for name, one in vars(optimizer).items() if name not in ("step", "state")}
    vars(twin).update(own)
    twin.state = defaultdict(dict)
    # The user's hooks must not run.
    twin._optimizer_step_pre_hooks = OrderedDict()
    twin._optimizer_step_post_hooks = OrderedDict()
    try:
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            twin.param_groups = [
                {**_settled(group), "params": [_fake(one) for one in group["params"]]}
                for group in optimizer.param_groups
            ]
            with _Counting() as counting:
                type(optimizer).step(twin)
        del mode
    except Exception as error:
        raise OptionError(
            f"the memory of {type(optimizer).__name__} cannot be measured: {error}. Omit "
            "optimizer= and give the bytes of its state as beside="
        ) from error
    state = {storage_key(one): _rounded(one) for one in fakes([*twin.state.values()])}
    return OptimizerNeeds(sum(state.values()), max(0, counting.peak - sum(state.values())))


def _settled(group: dict[str, Any]) -> dict[str, Any]:
    """Return a parameter group; on CUDA devices, an unset `foreach` becomes True.

    True is PyTorch's default there, but PyTorch does not use this default for fake parameters.
    """
    cuda = all(one.device.type == "cuda" for one in group["params"])
    if cuda and group.get("foreach", False) is None and not group.get("fused"):
        return {**group, "foreach": True}
    return group


def _fake(parameter: Tensor) -> Tensor:
    made = torch.empty_strided(
        parameter.shape, parameter.stride(), dtype=parameter.dtype, device=parameter.device
    )
    made.requires_grad_(parameter.requires_grad)
    if parameter.requires_grad:
        made.grad = torch.empty_like(made)
    return made


@clears_dispatch
class _Counting(TorchDispatchMode):
    """Dispatch mode that measures the peak bytes of storages allocated while it is active."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak = self._now = 0
        self._seen: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            # The value of a fake step count. Some optimizers allocate more in late steps.
            return 1000.5 if args[0].dtype.is_floating_point else 1000
        known = {storage_key(one) for one in fakes((args, kwargs or {}))}
        result = func(*args, **(kwargs or {}))
        for one in fakes(result):
            key = storage_key(one)
            if key not in known and key not in self._seen:
                self._seen.add(key)
                size = _rounded(one)
                self._now += size
                self.peak = max(self.peak, self._now)
                weakref.finalize(one.untyped_storage(), self._gone, key, size)
        return result

    def _gone(self, key: int, size: int) -> None:
        self._seen.discard(key)
        self._now -= size


def _rounded(one: Tensor) -> int:
    size = one.untyped_storage().nbytes()
    return -(-size // _GRAIN) * _GRAIN


@dataclass(frozen=True)
class CardBudget:
    """Memory of a card by purpose, and the bytes that are left for a step.

    Args:
        card: the card.
        context: bytes of CUDA's context and of other programs.
        resident: bytes of parameters, buffers and example inputs.
        gradients: bytes of the parameters' gradients, which the step allocates.
        optimizer: memory of the optimizer, or None.
        beside: bytes that the user keeps free.
        state_on_host: whether the optimizer's state is on the host while the step runs.
    """

    card: Card
    context: int
    resident: int
    gradients: int
    optimizer: OptimizerNeeds | None
    beside: int
    state_on_host: bool = False

    @property
    def packing(self) -> int:
        """Bytes assumed to be lost to fragmentation."""
        return int(PACKING * self.card.usable)

    @property
    def left(self) -> int:
        """Bytes that a step may allocate.

        Raises:
            BudgetError: if the memory of the optimizer's step and the gradients do not fit.
        """
        state = self.optimizer.state if self.optimizer else 0
        taken = self.context + self.resident + self.beside + self.packing
        left = self.card.usable - taken
        transient = self.optimizer.transient_bytes if self.optimizer else 0
        if left - state < self.gradients + transient:
            more = f", and the optimizer's step {format_bytes(transient)}" if transient else ""
            lighter = ", an optimizer with less state" if state else ""
            card = replace(self, state_on_host=False)
            raise BudgetError(
                f"training does not fit on {self.card.name}: {card}; in addition, gradients take "
                f"{format_bytes(self.gradients)}{more}. Use a larger card, smaller types "
                f"(bfloat16){lighter}, or train fewer parameters"
            )
        return left if self.state_on_host else left - state

    def __str__(self) -> str:
        tensors = "parameters, buffers and example inputs"
        parts = [("context", self.context), (tensors, self.resident)]
        if self.optimizer is not None and not self.state_on_host:
            parts.append(("state of the optimizer", self.optimizer.state))
        parts += [("kept free", self.beside), ("packing", self.packing)]
        words = ", ".join(f"{name} {format_bytes(size)}" for name, size in parts if size)
        return f"total {format_bytes(self.card.usable)}; reserved: {words}"


def context_of(devices: Iterable[torch.device]) -> int:
    """Return the bytes of CUDA's context and of other programs on a model's first CUDA device.

    The result is at least `CONTEXT`, and equals it if the model or PyTorch does not use CUDA yet.
    """
    cuda = sorted({one.index or 0 for one in devices if one.type == "cuda"})
    if not cuda or not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return CONTEXT
    free, total = torch.cuda.mem_get_info(cuda[0])
    return max(CONTEXT, total - free - torch.cuda.memory_reserved(cuda[0]))
