"""Batch normalisation that stays with cuDNN when it is captured.

PyTorch traces `cudnn_batch_norm` as `native_batch_norm`, since the former does not say that it
writes running statistics. What runs then is another kernel, which rounds differently. In training,
`_batch_norm_with_update` says it, and takes cuDNN where the eager model does.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey

_EAGER = torch.ops.aten.cudnn_batch_norm.default
_DECLARED = torch.ops.aten._batch_norm_with_update.default


@contextmanager
def cudnn_stays() -> Iterator[None]:
    """In the block, traces have batch normalisation as cuDNN's where the eager model has it."""
    traced = _EAGER.py_kernels.get(DispatchKey.Autograd)
    if traced is None:  # a version that traces it as it is
        yield
        return

    def declared(
        images: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        mean: Tensor | None,
        variance: Tensor | None,
        training: bool,
        momentum: float,
        epsilon: float,
    ) -> Any:
        if training and mean is not None and variance is not None:
            return _DECLARED(images, weight, bias, mean, variance, momentum, epsilon)
        return traced(images, weight, bias, mean, variance, training, momentum, epsilon)

    _replace(declared)
    try:
        yield
    finally:
        _replace(traced)


def _replace(kernel: Any) -> None:
    _EAGER.py_kernels[DispatchKey.Autograd] = kernel
    _EAGER._dispatch_cache.clear()
