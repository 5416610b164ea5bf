"""Sums into rows by index: they sort the indices first, so that each row has one writer.

Source: aten/src/ATen/native/cuda/Embedding.cu, EmbeddingBackwardKernel.cu and Indexing.cu of
PyTorch 2.11, and what the stub recorded of cub's workspaces.
"""

from typing import Any

import torch

from pgmo.fit.estimate.kernels.rule import Kernel, Rule, size_of

_aten = torch.ops.aten
_UNSORTED = 3072
"""Indices up to which an embedding's gradient is summed without sorting."""
_SORT, _SCAN = 19327, 1279
"""Bytes that cub takes for a sort besides two copies of keys and values, and for a scan."""
_CHUNK = 10
"""Rows of a gradient that one thread sums."""
_SMALL_SORT = 3000
"""Indices up to which cub sorts in one block, which takes a byte."""


def _embedding_backward(kernel: Kernel, args: Any, _kwargs: Any, out: Any) -> None:
    ledger = kernel.ledger
    grad, indices, words = args[:3]
    count = indices.numel()
    copies = [] if grad.is_contiguous() else [ledger.take(size_of(grad))]
    if count <= _UNSORTED:
        ledger.born([out])
        ledger.give(*copies)
        return
    each = count * indices.element_size()
    kept = [ledger.take(each), ledger.take(each)]
    kernel.passing(each, 2 * each + _SORT)
    ledger.born([out])
    most = min(count, words)
    kept += [ledger.take(each), ledger.take(8)]
    kernel.passing(each, _SCAN)
    kept += [ledger.take(8 * most), ledger.take(8 * most)]
    kernel.passing(_SCAN)
    partial = most + -(-count // _CHUNK)
    width = -(-grad.shape[-1] // 32) * 32
    sums = [ledger.take(8), ledger.take(8 * partial), ledger.take(4 * partial * width)]
    ledger.give(*reversed(sums), *reversed(kept), *copies)


def _index_put(kernel: Kernel, args: Any, kwargs: Any, out: Any) -> None:
    kernel.ledger.born([out])
    accumulates = args[3] if len(args) > 3 else kwargs.get("accumulate", False)
    if not accumulates:
        return
    count = max((one.numel() for one in args[1] if one is not None), default=0) * 8
    more = 1 if count <= 8 * _SMALL_SORT else 2 * count + _SORT
    linear = kernel.ledger.take(count)
    kernel.passing(count)
    kernel.passing(count, count, count, more)
    kernel.ledger.give(linear)


RULES: dict[Any, Rule] = {
    _aten.embedding_dense_backward.default: _embedding_backward,
    _aten.index_put.default: _index_put,
    _aten.index_put_.default: _index_put,
    _aten._index_put_impl_.default: _index_put,
}
