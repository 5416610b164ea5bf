"""Capture of operators as eager mode runs them, so that results are bit-identical.

PyTorch decomposes some operators for compilers: upsample_bilinear2d, for example, into index, mul,
sub and add. The decomposed operators produce other layouts, and add up in another order than the
kernel. Operators that have no derivative of their own, or read values of tensors on the host, stay
decomposed.

Captures run without PyTorch's metadata mode, because a program may have replaced a function of
PyTorch by a wrapper:

    functional.dropout      a wrapper that calls the original
    the original            passes the name `functional.dropout` to the mode
    the mode                would call the wrapper a second time
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from torch._C import DispatchKey
from torch.fx.experimental import proxy_tensor

from pgmo.recompute.capture.compat import without_tracing

_DECOMPOSED = (
    *("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"),
    *("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d"),
    *("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d"),
    *("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "_upsample_lanczos2d_aa"),
    *("hardshrink", "softshrink", "multi_margin_loss", "multilabel_margin_loss_forward", "matmul"),
)
"""Operators of `aten` that a capture decomposes in Python, although eager mode runs C++ code."""

_KEYS = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)

_Replacement = tuple[tuple[str, ...], tuple[DispatchKey, ...], Callable[[Any], Any]]
"""Operators of `aten`, their dispatch keys, and a function that takes a kernel and returns its
replacement, or None to remove the kernel."""


@contextmanager
def as_in_eager_mode() -> Iterator[None]:
    """Run a block in which captures contain the operators of eager mode. Not thread-safe."""
    no_mode = patch.object(proxy_tensor, "TorchFunctionMetadataMode", nullcontext)
    with _replaced_kernels(_REPLACEMENTS), no_mode:
        yield


def with_grouped_products() -> AbstractContextManager[None]:
    """Return a context in which grouped matrix products of all supported dtypes are captured."""
    return _replaced_kernels(((("_grouped_mm",), (DispatchKey.Meta,), _of_any_dtype),))


@contextmanager
def _replaced_kernels(replacements: Iterable[_Replacement]) -> Iterator[None]:
    originals: list[tuple[Any, DispatchKey, Any]] = []
    for names, keys, replace in replacements:
        for operator in _overloads(names):
            for key in keys:
                kernel = operator.py_kernels.get(key)
                if kernel is not None:
                    originals.append((operator, key, kernel))
                    _set_kernel(operator, key, replace(kernel))
    try:
        yield
    finally:
        for operator, key, kernel in originals:
            _set_kernel(operator, key, kernel)


def _overloads(names: tuple[str, ...]) -> Iterator[Any]:
    for name in names:
        packet = getattr(torch.ops.aten, name, None)
        if packet is not None:
            yield from (getattr(packet, overload) for overload in packet.overloads())


def _set_kernel(operator: Any, key: DispatchKey, kernel: Callable[..., Any] | None) -> None:
    if kernel is None:
        del operator.py_kernels[key]
    else:
        operator.py_kernels[key] = kernel
    operator._dispatch_cache.clear()


def _of_any_dtype(shape_function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a shape function of grouped matrix products for all dtypes.

    PyTorch's shape function accepts only bfloat16, although the kernels support more dtypes. Rows
    are padded to 16 bytes. If the padding may depend on the dtype, PyTorch's function is called.
    """

    def grouped(a: Tensor, b: Tensor, *more: Any, **options: Any) -> Tensor:
        plain = a.dtype == torch.bfloat16 or b.shape[-1] % 8 != 0
        if plain or more[2:] or options.get("out_dtype") is not None:
            return shape_function(a, b, *more, **options)
        made = shape_function(a.to(torch.bfloat16), b.to(torch.bfloat16), *more, **options)
        return torch.empty_strided(made.shape, made.stride(), dtype=a.dtype, device=a.device)

    return grouped


def _dropout_as_in_eager_mode(drop: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a dropout that computes the same bits as eager mode.

    A dropout that drops nothing returns its input. On a CPU, eager mode multiplies by 1 / (1 - p)
    rounded to the input's dtype. `native_dropout` rounds this factor differently for some p, and
    does not round this factor in the derivative.
    """

    def dropout(x: Tensor, p: float, train: bool) -> Tensor:
        if p == 0 or not train or x.numel() == 0:
            return x
        scale = _scale_of_eager_mode(p, x.dtype)
        same = x.dtype == torch.float32 and scale == float(np.float32(1 / (1 - p or 1)))
        if x.device.type != "cpu" or p == 1 or x.is_complex() or same:
            return drop(x, p, train)
        kept = torch.empty_like(x, dtype=torch.bool).bernoulli_(1 - p)
        return x * kept * scale

    return dropout


@functools.cache
def _scale_of_eager_mode(p: float, kind: torch.dtype) -> float:
    """Return 1 / (1 - p) as eager mode computes it in the dtype `kind`; 0 if p is 1."""
    if p == 1:
        return 0.0
    with without_tracing():
        return float(torch.ones((), dtype=kind).div_(1 - p))


def _with_declared_statistics(written_out: Callable[..., Any]) -> Callable[..., Any]:
    """Return a batch normalization that uses cuDNN wherever eager mode does.

    `cudnn_batch_norm` does not declare that it writes running statistics. So a capture replaces it
    by `native_batch_norm`, another kernel. `_batch_norm_with_update` declares the write and can use
    cuDNN.
    """

    def cudnn_batch_norm(
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        mean: Tensor | None,
        variance: Tensor | None,
        training: bool,
        momentum: float,
        epsilon: float,
    ) -> Any:
        if training and mean is not None and variance is not None:
            declared = torch.ops.aten._batch_norm_with_update.default
            return declared(x, weight, bias, mean, variance, momentum, epsilon)
        return written_out(x, weight, bias, mean, variance, training, momentum, epsilon)

    return cudnn_batch_norm


_REPLACEMENTS: tuple[_Replacement, ...] = (
    (_DECOMPOSED, _KEYS, lambda _kernel: None),
    (("dropout",), _KEYS, _dropout_as_in_eager_mode),
    (("cudnn_batch_norm",), (DispatchKey.Autograd,), _with_declared_statistics),
)
