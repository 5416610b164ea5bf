"""Losses: one value for each element first, which are then reduced to one.

Source: aten/src/ATen/native/Loss.cpp and cuda/Loss.cu of PyTorch 2.11, and what the stub recorded.
"""

from typing import Any

import torch

from pgmo.fit.estimate.kernels.rule import Kernel, Rule, size_of
from pgmo.fit.estimate.kernels.sums import reduce

_aten = torch.ops.aten


def _reduction(args: Any, kwargs: Any, at: int) -> int:
    """0 for none."""
    return int(args[at] if len(args) > at else kwargs.get("reduction", 1))


def _structured(kernel: Kernel, args: Any, kwargs: Any, out: Any) -> None:
    """The result is made as large as the input, and keeps its block when it is one value."""
    x = args[0]
    if not _reduction(args, kwargs, 2):
        kernel.ledger.born([out])
        return
    kernel.ledger.born_in(out, size_of(x))
    each = kernel.ledger.take(size_of(x))
    reduce(kernel, x, None, max(4, out.element_size()))
    kernel.ledger.give(each)


def _huber(kernel: Kernel, args: Any, kwargs: Any, out: Any) -> None:
    x = args[0]
    if not _reduction(args, kwargs, 2):
        kernel.ledger.born([out])
        return
    each = kernel.ledger.take(size_of(x))
    kernel.ledger.born([out])
    reduce(kernel, x, None, max(4, out.element_size()))
    kernel.ledger.give(each)


def _of_probabilities(kernel: Kernel, args: Any, kwargs: Any, out: Any) -> None:
    """The values of all elements become the result, in the block that they have."""
    x = args[0]
    if not _reduction(args, kwargs, 3):
        kernel.ledger.born([out])
        return
    kernel.ledger.born_in(out, size_of(x))
    mean = kernel.ledger.take(out.element_size())
    reduce(kernel, x, None, max(4, out.element_size()))
    kernel.ledger.give(mean)


def _of_logits(kernel: Kernel, args: Any, kwargs: Any, out: Any) -> None:
    x = args[0]
    logarithm = kernel.ledger.take(size_of(x))
    if not _reduction(args, kwargs, 4):
        kernel.ledger.born([out])
        kernel.ledger.give(logarithm)
        return
    each = kernel.ledger.take(size_of(x))
    kernel.ledger.born([out])
    reduce(kernel, x, None, max(4, out.element_size()))
    kernel.ledger.give(each, logarithm)


RULES: dict[Any, Rule] = {
    _aten.mse_loss.default: _structured,
    _aten.smooth_l1_loss.default: _structured,
    _aten.huber_loss.default: _huber,
    _aten.binary_cross_entropy.default: _of_probabilities,
    _aten.binary_cross_entropy_with_logits.default: _of_logits,
}
