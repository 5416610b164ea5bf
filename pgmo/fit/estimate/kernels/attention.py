"""Attention and dropout: the order of results, and what backward passes compute first.

Source of the rules: aten/src/ATen/native/transformers/cuda of PyTorch 2.11
(flash_attn/flash_api.cpp, attention_backward.cu, mem_eff_attention/kernel_backward.h), and what the
stub recorded.
"""

from typing import Any

import torch

from pgmo.cards.card import Card
from pgmo.fit.estimate.kernels.rule import Kernel, Rule, rounded, size_of

_aten = torch.ops.aten
_MOST_SPLITS = 128
_LOCK = 16
"""Bytes of the lock of each tile of a gradient that several thread blocks write."""


def _dropout(kernel: Kernel, _args: Any, _kwargs: Any, out: Any) -> None:
    kernel.ledger.born([out[1], out[0]])


def _efficient(kernel: Kernel, _args: Any, _kwargs: Any, out: Any) -> None:
    """Seed and offset of the random numbers are on the host."""
    kernel.ledger.born(out[:2])
    kernel.ledger.elsewhere(out[2:])
    result = out[0]
    if result.dtype is not torch.float32 and result.shape[-1] > 128:
        kernel.passing(result.numel() * 4)  # sums in single precision


def _efficient_backward(kernel: Kernel, args: Any, _kwargs: Any, out: Any) -> None:
    ledger = kernel.ledger
    grad, query, key, value, result = args[0], args[1], args[2], args[3], args[5]
    plain = grad.transpose(1, 2).is_contiguous()
    copies = [] if plain else [ledger.take(size_of(grad))]
    ledger.born([one for one in out if one is not None])
    samples, heads, queries, features = query.shape
    sums = samples * heads * queries * 4
    if query.dtype is torch.float32:
        product = ledger.take(size_of(result))
        first, delta = ledger.take(sums), ledger.take(sums)
        ledger.give(first, product)
    else:
        delta = ledger.take(sums)
    widest = max(features, value.shape[-1])
    each = _efficient_workspace(queries, key.shape[2], widest, query.dtype is torch.float32)
    workspace = ledger.take(samples * heads * each)
    ledger.give(delta, workspace, *copies)


def _efficient_workspace(queries: int, keys: int, features: int, single: bool) -> int:
    """Bytes of one head's partial gradients, with the tiles of compute capability 8.0 and later."""
    rows = 64 if features <= 64 else 128
    columns = 128 if not single and 64 < features <= 128 else 64
    tiles = -(-queries // rows) * -(-features // columns)
    size = tiles * (rows * columns * 4 + _LOCK)
    if not single and features > 128:  # gradients of keys and values, in single precision
        size += 2 * rounded(keys, 64) * rounded(features, rows) * 4
    return rounded(size, 16)


def _flash(kernel: Kernel, args: Any, kwargs: Any, out: Any) -> None:
    ledger = kernel.ledger
    query, key = args[0], args[1]
    dropout = args[3] if len(args) > 3 else kwargs.get("dropout_p", 0.0)
    ledger.born(out[:2])
    samples, heads, queries, features = query.shape
    splits = (
        1 if dropout else _splits(kernel.card, samples * heads, queries, key.shape[2], features)
    )
    taken = []
    if splits > 1:
        rows = splits * samples * heads * queries * 4
        wide = rounded(features, 32 if features <= 128 else 64)
        taken = [ledger.take(rows), ledger.take(rows * wide)]
    ledger.born(out[6:8])
    if dropout:
        kernel.passing(16)
    ledger.give(*taken)


def _splits(card: Card, heads: int, queries: int, keys: int, features: int) -> int:
    """Into how many parts flash attention divides the keys to keep the card busy."""
    block = 256 if features <= 64 else 128 if features <= 128 else 64
    blocks = -(-keys // block)
    work = heads * -(-queries // 64)
    room = card.multiprocessors * 2
    if work >= 0.8 * room:
        return 1
    use: dict[int, float] = {}
    for parts in range(1, min(_MOST_SPLITS, room, blocks) + 1):
        if parts == 1 or -(-blocks // parts) != -(-blocks // (parts - 1)):
            waves = work * parts / room
            use[parts] = waves / -(-work * parts // room)
    best = max(use.values())
    return next(parts for parts, share in use.items() if share >= 0.85 * best)


def _flash_backward(kernel: Kernel, args: Any, kwargs: Any, out: Any) -> None:
    ledger = kernel.ledger
    grad, query, key, _, result = args[:5]
    samples, heads, queries, features = query.shape
    copies = [
        ledger.take(size_of(one))
        for one in (grad, result)
        if not one.transpose(1, 2).is_contiguous()
    ]
    ledger.born(out[:3])
    rows = samples * heads * rounded(queries, 128) * 4
    taken = [
        ledger.take(rows),
        ledger.take(rows * rounded(features, 32 if features <= 128 else 64)),
    ]
    if key.shape[1] != heads:
        expanded = samples * heads * key.shape[2] * features * key.element_size()
        taken += [ledger.take(expanded), ledger.take(expanded)]
    ledger.give(*reversed(taken), *reversed(copies))


def _safe_softmax(kernel: Kernel, args: Any, _kwargs: Any, out: Any) -> None:
    """Looks for rows in which everything is masked."""
    kernel.ledger.born([out])
    kernel.passing(out.numel(), out.numel() // args[0].shape[args[1]], 4)


def _softmax_backward(kernel: Kernel, args: Any, _kwargs: Any, out: Any) -> None:
    kernel.ledger.born([out])
    kernel.passing(size_of(args[0]))


RULES: dict[Any, Rule] = {
    _aten._safe_softmax.default: _safe_softmax,
    _aten._softmax_backward_data.default: _softmax_backward,
    _aten.native_dropout.default: _dropout,
    _aten._scaled_dot_product_efficient_attention.default: _efficient,
    _aten._scaled_dot_product_efficient_attention_backward.default: _efficient_backward,
    _aten._scaled_dot_product_flash_attention.default: _flash,
    _aten._scaled_dot_product_flash_attention_backward.default: _flash_backward,
}
