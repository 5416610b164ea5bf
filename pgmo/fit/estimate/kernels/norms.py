"""Normalisation: copies of what is not contiguous, and coefficients by sample and channel."""

from typing import Any

import torch

from pgmo.fit.estimate.kernels.rule import Kernel, Rule, size_of

_aten = torch.ops.aten


def _layer_norm(kernel: Kernel, args: Any, _kwargs: Any, out: Any) -> None:
    ledger = kernel.ledger
    copies = [] if args[0].is_contiguous() else [ledger.take(size_of(args[0]))]
    ledger.born(out)
    ledger.give(*copies)


def _layer_norm_backward(kernel: Kernel, args: Any, _kwargs: Any, out: Any) -> None:
    ledger = kernel.ledger
    grad, x = args[:2]
    copies = [] if x.is_contiguous() else [ledger.take(size_of(x))]
    ledger.born([one for one in out if one is not None])
    kernel.passing(0 if grad.is_contiguous() else size_of(grad))
    ledger.give(*copies)


def _group_norm(kernel: Kernel, args: Any, _kwargs: Any, out: Any) -> None:
    samples, channels = args[3], args[4]
    affine = args[1] is not None or args[2] is not None
    kernel.ledger.born(out)
    if affine:
        kernel.passing(*[samples * channels * out[1].element_size()] * 2)


def _group_norm_backward(kernel: Kernel, args: Any, _kwargs: Any, out: Any) -> None:
    ledger = kernel.ledger
    x, weight = args[1], args[4]
    samples, channels, groups = args[5], args[6], args[8]
    each = 4 if x.element_size() <= 4 else 8
    ledger.born([one for one in out if one is not None])
    sums = [ledger.take(samples * channels * each) for _ in range(2)]
    if out[0] is not None:
        coefficients = [ledger.take(samples * groups * each) for _ in range(2)]
        if weight is not None:
            scale = ledger.take(samples * channels * each)
            ledger.give(*reversed(coefficients), scale)
        else:
            ledger.give(*reversed(coefficients))
    ledger.give(*reversed(sums))


def _batch_norm_backward(kernel: Kernel, args: Any, _kwargs: Any, out: Any) -> None:
    """Positions of a sample are one dimension there, for which some inputs are copied."""
    ledger = kernel.ledger
    grad, x = args[:2]
    copies = [ledger.take(size_of(one)) for one in (x, grad) if not _has_one_stride(one)]
    ledger.born([one for one in out if one is not None])
    ledger.give(*copies)


def _has_one_stride(tensor: Any) -> bool:
    """Whether all positions of a channel lie at multiples of one distance."""
    if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
        return True
    sizes, strides = tensor.shape[2:], tensor.stride()[2:]
    return all(
        strides[at] == strides[at + 1] * sizes[at + 1] or sizes[at] == 1
        for at in range(len(sizes) - 1)
    )


RULES: dict[Any, Rule] = {
    _aten.native_layer_norm.default: _layer_norm,
    _aten.native_layer_norm_backward.default: _layer_norm_backward,
    _aten.native_batch_norm_backward.default: _batch_norm_backward,
    _aten.native_group_norm.default: _group_norm,
    _aten.native_group_norm_backward.default: _group_norm_backward,
}
