"""Sums, means, norms, variances and extremes, in blocks that share their work."""

from typing import Any

import torch

from pgmo.fit.estimate.kernels.reductions import shared_buffers
from pgmo.fit.estimate.kernels.rule import Kernel, Rule, size_of

_aten = torch.ops.aten
_CHUNK = 65536
"""Elements that one block takes of a tensor in kernels over many tensors."""


def _dims(tensor: Any, dims: Any) -> list[int]:
    if dims is None or dims == []:
        return list(range(tensor.dim()))
    if isinstance(dims, int):
        dims = [dims]
    return [dim % max(1, tensor.dim()) for dim in dims]


def reduce(kernel: Kernel, tensor: Any, dims: Any, partial: int, values: int = 4) -> None:
    """Takes what the blocks of a reduction exchange, and gives it back.

    Args:
        kernel: notes it.
        tensor: that is reduced.
        dims: over which; None for all.
        partial: bytes of a partial result.
        values: how many a thread loads at once.
    """
    found = shared_buffers(
        tensor.shape,
        tensor.stride(),
        _dims(tensor, dims),
        partial=partial,
        card=kernel.card,
        values=values,
    )
    if found is not None:
        kernel.passing(*found)


def _sum(kernel: Kernel, args: Any, kwargs: Any, out: Any) -> None:
    tensor = args[0]
    kernel.ledger.born([out])
    dims = args[1] if len(args) > 1 else kwargs.get("dim")
    if tensor.dtype.is_floating_point or tensor.dtype is out.dtype:
        reduce(kernel, tensor, dims, max(4, out.element_size()))
        return
    # Integers are copied before they are added.
    copy = kernel.ledger.take(tensor.numel() * out.element_size())
    reduce(kernel, tensor, dims, out.element_size())
    kernel.ledger.give(copy)


def _extreme(kernel: Kernel, args: Any, kwargs: Any, out: Any) -> None:
    kernel.ledger.born([out])
    dims = args[1] if len(args) > 1 else kwargs.get("dim")
    reduce(kernel, args[0], dims, out.element_size())


def _position(kernel: Kernel, args: Any, kwargs: Any, out: Any) -> None:
    kernel.ledger.born(out if isinstance(out, (tuple, list)) else [out])
    dims = args[1] if len(args) > 1 else kwargs.get("dim")
    reduce(kernel, args[0], dims, 16)


def _norms(kernel: Kernel, args: Any, _kwargs: Any, out: Any) -> None:
    """Norms of many tensors: one partial result for each chunk, as many as the longest has."""
    chunks = max((-(-one.numel() // _CHUNK) for one in args[0]), default=0)
    partial = kernel.ledger.take(len(args[0]) * chunks * 4)
    kernel.ledger.born(out)
    kernel.ledger.give(partial)


def _norm(kernel: Kernel, args: Any, kwargs: Any, out: Any) -> None:
    kernel.ledger.born([out])
    dims = args[2] if len(args) > 2 else kwargs.get("dim")
    reduce(kernel, args[0], dims, max(4, out.element_size()))


def _variance(kernel: Kernel, args: Any, kwargs: Any, out: Any) -> None:
    kernel.ledger.born(out if isinstance(out, (tuple, list)) else [out])
    dims = args[1] if len(args) > 1 else kwargs.get("dim")
    reduce(kernel, args[0], dims, 16, values=2)


def _log_of_sums(kernel: Kernel, args: Any, kwargs: Any, out: Any) -> None:
    """The largest is taken away first, where it is finite."""
    ledger, tensor = kernel.ledger, args[0]
    rows = out.numel() * tensor.element_size()
    largest = ledger.take(rows)
    kernel.passing(rows, out.numel())
    powers = ledger.take(size_of(tensor))
    ledger.born([out])
    reduce(kernel, tensor, args[1] if len(args) > 1 else kwargs.get("dim"), 4)
    ledger.give(powers, largest)


RULES: dict[Any, Rule] = {
    _aten.logsumexp.default: _log_of_sums,
    _aten.sum.default: _sum,
    _aten.sum.dim_IntList: _sum,
    _aten.mean.default: _sum,
    _aten.mean.dim: _sum,
    _aten.amax.default: _extreme,
    _aten.amin.default: _extreme,
    _aten.max.default: _extreme,
    _aten.min.default: _extreme,
    _aten.any.default: _extreme,
    _aten.all.default: _extreme,
    _aten.max.dim: _position,
    _aten.min.dim: _position,
    _aten.argmax.default: _position,
    _aten.argmin.default: _position,
    _aten._foreach_norm.Scalar: _norms,
    _aten.linalg_vector_norm.default: _norm,
    _aten.var.correction: _variance,
    _aten.std.correction: _variance,
    _aten.var_mean.correction: _variance,
}
