"""Parameters, modules and optimizers of fake tensors: treated as if they were real ones."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.optim import optimizer as optimizers
from torch.utils import _foreach_utils

from pgmo.fit.estimate.ledger import Holds, Ledger


@contextmanager
def adapted(fake: FakeTensorMode, ledger: Ledger) -> Iterator[None]:
    """Inside, modules move to the card in place, and optimizers take their usual kernels.

    Every parameter that is made meanwhile is fake, so that it can move without being replaced.
    torch itself would swap fake parameters, which fails as soon as anything refers to them weakly,
    and would take no `foreach` kernels for a subclass of tensors.

    Args:
        fake: the mode whose tensors these are.
        ledger: is told which blocks hold parameters, gradients and state.
    """
    make = torch.nn.Parameter.__new__

    def parameter(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
        if data is not None and not isinstance(data, FakeTensor) and data.device.type == "cpu":
            with torch.no_grad():
                data = fake.from_tensor(data.detach(), static_shapes=True)
        made = make(cls, data, requires_grad)
        if data is not None:
            ledger.say(made.untyped_storage(), Holds.PARAMETER)
        return made

    def apply(module: Any, convert: Any, recurse: bool = True) -> Any:
        if recurse:
            for child in module.children():
                apply(child, convert)
        for owned in module._parameters.values():
            if owned is not None:
                _move(owned, convert)
                ledger.say(owned.untyped_storage(), Holds.PARAMETER)
                if owned.grad is not None:
                    _move(owned.grad, convert)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = moved = convert(buffer)
                ledger.say(moved.untyped_storage(), Holds.PARAMETER)
        return module

    def before_step(optimizer: Any, *_: Any) -> None:
        for group in optimizer.param_groups:
            for one in group["params"]:
                ledger.say(one.untyped_storage(), Holds.PARAMETER)
                if one.grad is not None:
                    ledger.say(one.grad.untyped_storage(), Holds.GRADIENT)

    def after_step(optimizer: Any, *_: Any) -> None:
        for state in optimizer.state.values():
            for one in state.values() if isinstance(state, dict) else ():
                if isinstance(one, torch.Tensor):
                    ledger.say(one.untyped_storage(), Holds.STATE)

    with ExitStack() as undo:
        undo.enter_context(mock.patch.object(torch.nn.Parameter, "__new__", parameter))
        undo.enter_context(mock.patch.object(FakeTensor, "__deepcopy__", _copied, create=True))
        undo.enter_context(mock.patch.object(torch.nn.Module, "_apply", apply))
        for kinds in (optimizers._foreach_supported_types, _foreach_utils._foreach_supported_types):
            kinds.append(FakeTensor)
            undo.callback(kinds.remove, FakeTensor)
        for handle in (
            optimizers.register_optimizer_step_pre_hook(before_step),
            optimizers.register_optimizer_step_post_hook(after_step),
        ):
            undo.callback(handle.remove)
        yield


def _copied(tensor: Any, memo: dict[int, Any]) -> Any:
    """A copy that is a parameter where the original is one; torch's own is a plain tensor."""
    if id(tensor) not in memo:
        with torch.no_grad():
            copy = tensor.detach().clone()
        if isinstance(tensor, torch.nn.Parameter):
            copy = torch.nn.Parameter(copy, tensor.requires_grad)
        memo[id(tensor)] = copy
    return memo[id(tensor)]


def _move(tensor: Any, convert: Any) -> None:
    """Exchanges what a tensor holds, as `Module.to` does with real ones."""
    with torch.no_grad():
        applied = convert(tensor)
    if applied is tensor:
        return
    if isinstance(tensor, FakeTensor) or not isinstance(applied, FakeTensor):
        tensor.data = applied
        if isinstance(applied, FakeTensor):
            tensor.fake_device = applied.fake_device
        return
    raise RuntimeError("a parameter that was made before cannot be moved to the card")


_COMPOSITE = ("silu_backward", "mish_backward", "_fused_rms_norm", "_fused_rms_norm_backward")
"""Operators that have a kernel for CUDA, and are composed of others where there is none."""


@contextmanager
def registered() -> Iterator[None]:
    """Inside, torch knows of kernels for CUDA that a CPU build lacks; they are never run."""

    def kernel(*_args: Any) -> None:
        raise NotImplementedError("a kernel of a card that is not there")

    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    for name in _COMPOSITE:
        operator = getattr(torch.ops.aten, name, None)
        if operator is None:
            continue
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "CUDA"):
            library.impl(name, kernel, "CUDA")  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        library._destroy()  # type: ignore[no-untyped-call]
