"""Attention that keeps large scores or masks."""

import torch
from torch import Tensor

from faulty import program
from faulty.models import Model, fused, train


def _eager(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    length = scores.shape[-1]
    future = torch.ones(length, length, dtype=torch.bool, device=scores.device).triu(1)
    return scores.masked_fill(future, float("-inf")).softmax(-1) @ value


@program("Attention keeps its scores", "vllm-project/speculators#881")
def eager_attention(fixed: bool) -> None:
    """Keep the scores of all pairs of tokens, in several versions per layer."""
    train(Model(attend=fused if fixed else _eager).cuda(), batch=4, length=1024)


@program("A tensor repeated in memory", "ByteDance-Seed/Depth-Anything-3#268")
def repeated_mask(fixed: bool) -> None:
    """Repeat one mask for each head, although all heads use the same mask."""
    length = 1024
    mask = torch.zeros(4, 1, length, length, device="cuda")

    def masked(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        shown = mask if fixed else mask.repeat(1, query.shape[1], 1, 1)
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, shown)

    train(Model(attend=masked).cuda(), batch=4, length=length)
