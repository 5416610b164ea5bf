"""Runs of a forward pass whose changes are undone.

buffers               replaced by copies during the run
attributes, hooks     restored
random numbers        generators are restored
"""

import random
import sys
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from pgmo.recompute.calls.contents import AttributeRecord


@contextmanager
def restoring_all_but_flags(
    module: nn.Module, devices: Collection[torch.device]
) -> Iterator[AttributeRecord]:
    """Run a block, then undo its changes of the module, but not hooks and new flags.

    A library may set these at the first call. The random generators of the CPU and of `devices` are
    restored, too. Yields the attributes of the modules as they were before the block.
    """
    contents = AttributeRecord(module)
    with ExitStack() as stack:
        stack.callback(contents.restore_values)
        _enter(stack, module, devices)
        yield contents


@contextmanager
def restoring_state(module: nn.Module, devices: Collection[torch.device]) -> Iterator[None]:
    """Run a block, then undo its changes of the module and of the random generators."""
    with ExitStack() as stack:
        stack.callback(AttributeRecord(module).restore)
        _enter(stack, module, devices)
        yield


def copied(tensor: Tensor) -> Tensor:
    """Return a copy with the same strides; the tensor itself if its elements share memory."""
    copy = tensor.detach().clone()
    if copy.stride() != tensor.stride():
        return tensor
    copy.requires_grad_(tensor.requires_grad)
    return copy if tensor.is_leaf else copy.view_as(copy)


def _enter(stack: ExitStack, module: nn.Module, devices: Collection[torch.device]) -> None:
    stack.enter_context(_own_buffers(module))
    stack.callback(random.setstate, random.getstate())
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        stack.callback(numpy.random.set_state, numpy.random.get_state())
    stack.enter_context(torch.random.fork_rng(sorted(devices, key=str)))


@contextmanager
def _own_buffers(module: nn.Module) -> Iterator[None]:
    """Give a module copies of its buffers while a block runs."""
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
