"""Contexts that undo the changes of a forward pass."""

import random
import sys
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from pgmo.recompute.calls.contents import AttributeRecord
from pgmo.recompute.calls.signature import Arguments, distinct, places
from pgmo.recompute.capture.compat import flatten, unflatten


@contextmanager
def restoring_state(
    module: nn.Module, devices: Collection[torch.device], *, keeps_setup: bool = False
) -> Iterator[AttributeRecord]:
    """Run a block with copied buffers, then restore attributes, hooks and random generators.

    `devices` are the CUDA devices whose generators are restored. With `keeps_setup`, new hooks and
    flags stay (`AttributeRecord.restore_values`). Yields the `AttributeRecord` made before it.
    """
    contents = AttributeRecord(module)
    with ExitStack() as stack:
        stack.callback(contents.restore_values if keeps_setup else contents.restore)
        stack.enter_context(_with_copied_buffers(module))
        stack.callback(random.setstate, random.getstate())
        numpy: Any = sys.modules.get("numpy")
        if numpy is not None:
            stack.callback(numpy.random.set_state, numpy.random.get_state())
        stack.enter_context(torch.random.fork_rng(sorted(devices, key=str)))
        yield contents


def copied_arguments(arguments: Arguments) -> tuple[Arguments, list[Tensor]]:
    """Return arguments with tensors copied by `_copied`, and the distinct copies."""
    leaves, spec = flatten(arguments)
    copies = [_copied(one) for one in distinct(leaves)]
    for place, number in places(leaves).items():
        leaves[place] = copies[number]
    return unflatten(leaves, spec), copies


def _copied(tensor: Tensor) -> Tensor:
    """Return a copy, or the tensor itself if it has gaps or overlaps, which `clone` removes."""
    copy = tensor.detach().clone()
    if copy.stride() != tensor.stride():
        return tensor
    copy.requires_grad_(tensor.requires_grad)
    return copy if tensor.is_leaf else copy.view_as(copy)


@contextmanager
def _with_copied_buffers(module: nn.Module) -> Iterator[None]:
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
