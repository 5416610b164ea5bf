"""Recomputation with public names of PyTorch only: segments of a model under `checkpoint`.

    stem  layer1  layer2 | layer3  layer4  layer5 | layer6  head
    ------ checkpoint -----  ----- checkpoint -----   as it is

Whole segments are forgotten, convolutions and all, which costs more than a planned schedule. What
it needs is a forward pass that `torch.fx` can trace.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from math import isqrt
from typing import Any

import torch
from torch import fx, nn
from torch.fx.passes.split_module import split_module
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from pgmo.errors import GraphError, OptionError


def segments(model: nn.Module, count: int | None = None) -> fx.GraphModule:
    """Cuts a model into segments that are forgotten and computed again one by one.

    For models and versions of PyTorch that `pgmo.recompute` cannot capture. Losses, gradients and
    buffers are the same bits as the model's: running statistics are not updated a second time, and
    random numbers are drawn again from the same state.

    Args:
        model: a module whose forward pass has no control flow that depends on values.
        count: number of segments, from 2; by default the square root of the number of operations
            (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost", arXiv 1604.06174,
            section 4.2). The last one is not forgotten: its backward pass comes at once.

    Returns:
        A module with the same parameters and buffers, under the same objects.

    Raises:
        GraphError: the forward pass cannot be traced.
        OptionError: `count` is below 2.

    Example:
        >>> layers = [nn.Linear(8, 8) for _ in range(4)]
        >>> model = segments(nn.Sequential(*layers), count=2)
        >>> model(torch.ones(1, 8)).sum().backward()
    """
    try:
        traced = fx.symbolic_trace(model)
    except Exception as error:
        raise GraphError(
            f"the forward pass cannot be traced: {error}. Put torch.utils.checkpoint around its "
            "blocks by hand, or mark regions with pgmo.recompute.forget()"
        ) from error
    nodes = [node for node in traced.graph.nodes if node.op.startswith("call_")]
    count = max(2, isqrt(len(nodes))) if count is None else count
    if count < 2:
        raise OptionError(f"{count} segments: give 2 or more")
    place = {node: index * count // len(nodes) for index, node in enumerate(nodes)}
    last = max(place.values(), default=0)
    cut = split_module(traced, model, place.__getitem__)
    for index in range(last):
        name = f"submod_{index}"
        setattr(cut, name, _Forgotten(getattr(cut, name)))
    return cut


class _Forgotten(nn.Module):
    """A segment under `checkpoint`."""

    def __init__(self, segment: nn.Module) -> None:
        super().__init__()
        self.segment = segment

    def forward(self, *arguments: Any) -> Any:
        """Calls the segment; its insides are not kept."""
        if not torch.is_grad_enabled():
            return self.segment(*arguments)
        return checkpoint(
            self.segment, *arguments, use_reentrant=False, context_fn=_guarded(self.segment)
        )


def _guarded(
    module: nn.Module,
) -> Callable[[], tuple[AbstractContextManager[None], AbstractContextManager[None]]]:
    return lambda: (nullcontext(), _without_statistics(module))


@contextmanager
def _without_statistics(module: nn.Module) -> Iterator[None]:
    """Inside, batch normalisations leave their running statistics as they are.

    A momentum of 0 makes the update one by zero; without the counter, that stays. Turning the
    statistics off would save other tensors than the first run, which `checkpoint` refuses.
    """
    found = [one for one in module.modules() if isinstance(one, _BatchNorm)]
    before = [(one, one.momentum, one.num_batches_tracked) for one in found]
    for one in found:
        one.momentum, one.num_batches_tracked = 0.0, None
    try:
        yield
    finally:
        for one, momentum, counter in before:
            one.momentum, one.num_batches_tracked = momentum, counter
