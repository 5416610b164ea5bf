"""Capture of operators as eager mode runs them, so that results are bit-identical.

    eager mode      upsample_bilinear2d       its kernel, and that of its derivative
    while captured  index, mul, sub, add      decomposed in Python, unless prevented here

PyTorch decomposes some operators for compilers that want few kinds of operators. A gather and a sum
differ from the kernel in layouts and in the order of sums. Operators stay decomposed if they have
no derivative otherwise, or read values.

Functions must run once, also if a program has replaced a function of PyTorch:

    functional.dropout      a wrapper that calls the original
    the original            asks the metadata mode, by the name `functional.dropout`
    the mode                would call the wrapper once more
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

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
"""Operators of `aten` with kernels and derivatives of their own."""

_KEYS = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)


@contextmanager
def as_in_eager_mode() -> Iterator[None]:
    """Capture operators without decomposition, and functions once; one thread at a time."""
    originals: list[tuple[Any, Any, Any]] = []
    for operator in _overloads(_DECOMPOSED):
        for key in _KEYS:
            if key in operator.py_kernels:
                originals.append((operator, key, operator.py_kernels[key]))
                _set_kernel(operator, key, None)
    for row in _REPLACEMENTS:
        originals += _replace_kernels(*row)
    noting = proxy_tensor.TorchFunctionMetadataMode
    proxy_tensor.TorchFunctionMetadataMode = _no_metadata_mode  # type: ignore[assignment,misc]
    try:
        yield
    finally:
        proxy_tensor.TorchFunctionMetadataMode = noting  # type: ignore[misc]
        for operator, key, kernel in originals:
            _set_kernel(operator, key, kernel)


@contextmanager
def with_grouped_products() -> Iterator[None]:
    """Capture grouped matrix products in all types that their kernels support."""
    originals = _replace_kernels("_grouped_mm", (DispatchKey.Meta,), _of_any_type)
    try:
        yield
    finally:
        for operator, key, kernel in originals:
            _set_kernel(operator, key, kernel)


def _replace_kernels(
    name: str, keys: tuple[DispatchKey, ...], replace: Callable[..., Any]
) -> list[tuple[Any, Any, Any]]:
    """Replace the kernels of an operator; return operator, key and original kernel of each."""
    originals = []
    for operator in _overloads((name,)):
        for key in keys:
            kernel = operator.py_kernels.get(key)
            if kernel is not None:
                originals.append((operator, key, kernel))
                _set_kernel(operator, key, replace(kernel))
    return originals


def _no_metadata_mode(_tracer: object) -> nullcontext[None]:
    """Return an empty context, not the mode that records the calling function in each node."""
    return nullcontext()


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


def _of_any_type(shape_function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a shape function of grouped products for all types; PyTorch's supports only bfloat16.

    The kernels support other types, too. Rows are padded to 16 bytes; if that makes a difference
    between types, PyTorch decides.
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

    If it drops nothing, the result is its input, not a copy. On a CPU, eager mode multiplies by
    1 / (1 - p) in the type of the input; the kernel does not round it in its derivative, nor for
    some p.
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
    """Return 1 / (1 - p) as eager mode computes it, in numbers of the type."""
    if p == 1:
        return 0.0
    with without_tracing():
        return float(torch.ones((), dtype=kind).div_(1 - p))


def _with_declared_statistics(written_out: Callable[..., Any]) -> Callable[..., Any]:
    """Return a batch normalization that uses cuDNN wherever the eager model does.

    `cudnn_batch_norm` does not declare that it writes running statistics, so a capture replaces it
    by `native_batch_norm`, another kernel. `_batch_norm_with_update` declares it and can use cuDNN.
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


_REPLACEMENTS = (
    ("_grouped_mm", (DispatchKey.Meta,), _of_any_type),
    ("dropout", _KEYS, _dropout_as_in_eager_mode),
    ("cudnn_batch_norm", (DispatchKey.Autograd,), _with_declared_statistics),
)
