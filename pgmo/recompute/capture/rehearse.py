"""Runs a forward pass once as it is, to see which values of tensors it reads; nothing stays of it.

inputs, buffers       copies, in their places for as long as it runs
attributes            put back
random numbers        generators are put back
saved for backward    nothing
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from pgmo.recompute.frozen.draws import Draws
from pgmo.recompute.frozen.guard import Attributes
from pgmo.recompute.frozen.values import Observation, Observing, reading_lists


def rehearse(
    module: nn.Module, run: Callable[[list[Tensor]], object], tensors: list[Tensor]
) -> list[Observation]:
    """The values that a forward pass reads, in order.

    Args:
        module: whose buffers and attributes it may change.
        run: the forward pass, called with as many tensors.
        tensors: the inputs.

    Raises:
        GraphError: it writes into a parameter.
    """
    copies = [copied(one) for one in tensors]
    devices = {one.device for one in (*tensors, *module.parameters()) if one.device.type == "cuda"}
    kept = [one for one, copy in zip(tensors, copies, strict=True) if one is copy]
    observing = Observing([*module.parameters(), *kept])
    with ExitStack() as stack:
        stack.enter_context(nothing_stays(module, devices))
        stack.enter_context(torch.autograd.graph.saved_tensors_hooks(_drop, _dropped))
        stack.enter_context(reading_lists())
        stack.enter_context(observing)
        run(copies)
    return observing.found


@contextmanager
def only_flags_stay(module: nn.Module, devices: Collection[torch.device]) -> Iterator[None]:
    """Inside, a forward pass runs of which hooks and new flags stay: what a first call sets up.

    Args:
        module: whose buffers and attributes it may change.
        devices: whose generators of random numbers it may use beside the CPU's.
    """
    before = [(one, Attributes(one)) for one in module.modules()]
    with ExitStack() as stack:
        for one, attributes in before:
            stack.callback(attributes.put_back_values, one)
        stack.enter_context(_own_buffers(module))
        stack.enter_context(Draws().noting())
        stack.enter_context(torch.random.fork_rng(sorted(devices, key=str)))
        yield


@contextmanager
def nothing_stays(module: nn.Module, devices: Collection[torch.device]) -> Iterator[None]:
    """Inside, a forward pass runs of which nothing stays but what it writes into its arguments.

    Args:
        module: whose buffers and attributes it may change.
        devices: whose generators of random numbers it may use beside the CPU's.
    """
    before = [(one, Attributes(one)) for one in module.modules()]
    cached = torch.is_autocast_cache_enabled()
    with ExitStack() as stack:
        stack.callback(torch.set_autocast_cache_enabled, cached)
        for one, attributes in before:
            stack.callback(attributes.put_back, one)
        stack.enter_context(_own_buffers(module))
        stack.enter_context(Draws().noting())
        stack.enter_context(torch.random.fork_rng(sorted(devices, key=str)))
        torch.set_autocast_cache_enabled(False)
        yield


def copied(tensor: Tensor) -> Tensor:
    """A copy of the same strides; itself where several elements share a place."""
    copy = tensor.detach().clone()
    if copy.stride() != tensor.stride():
        return tensor
    copy.requires_grad_(tensor.requires_grad)
    return copy if tensor.is_leaf else copy.view_as(copy)


@contextmanager
def _own_buffers(module: nn.Module) -> Iterator[None]:
    """Inside, a module has copies of its buffers."""
    before = [(one, dict(one._buffers)) for one in module.modules()]
    copies: dict[int, Tensor] = {}
    for one, buffers in before:
        for name, buffer in buffers.items():
            if buffer is not None:
                one._buffers[name] = copies.setdefault(id(buffer), buffer.detach().clone())
    try:
        yield
    finally:
        for one, buffers in before:
            one._buffers.clear()
            one._buffers.update(buffers)


def _drop(_tensor: Tensor) -> None:
    return None


def _dropped(_packed: None) -> Any:
    raise RuntimeError("a derivative was asked for while the forward pass was looked at")
