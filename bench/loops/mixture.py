"""Mixtures of experts: each token goes to a few experts, so sizes change from layer to layer.

In a real program the routing depends on data; here it is drawn on the host. Because routers are not
balanced, the shares of the experts are a constant plus an exponentially distributed number.
"""

import random
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from loops import Setting
from loops.loop import BFLOAT16, Loop, adamw, zeros


class Expert(nn.Module):
    """Gated feed-forward net."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, inner, bias=False)
        self.widen = nn.Linear(width, inner, bias=False)
        self.narrow = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return hidden states, shape (tokens, width)."""
        result: Tensor = self.narrow(functional.silu(self.gate(x)) * self.widen(x))
        return result


class Mixture(nn.Module):
    """Experts behind a router, whose results are added to their input."""

    def __init__(self, width: int, inner: int, experts: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.router = nn.Linear(width, experts)
        self.experts = nn.ModuleList(Expert(width, inner) for _ in range(experts))

    def forward(self, x: Tensor, counts: list[int]) -> Tensor:
        """Return hidden states, shape (tokens, width); `counts` has the tokens of each expert."""
        normed = self.norm(x)
        weights = self.router(normed).softmax(-1)
        mixed = torch.zeros_like(normed)
        for number, (expert, count) in enumerate(zip(self.experts, counts, strict=True)):
            if not count:
                continue
            taken = zeros(count)
            share = weights[taken, number, None]
            mixed.index_add_(0, taken, (expert(normed[taken]) * share).to(mixed.dtype))
        return x + mixed


class MixtureOfExperts(Loop):
    """Eight layers with 8 experts, 2 of them per token; 4,096 tokens, logits over 32,000 words."""

    experts: ClassVar[int] = 8
    chosen: ClassVar[int] = 2
    inner: ClassVar[int] = 3  # inner width of an expert, in widths of the model

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.width, layers, self.tokens, self.words = setting.choose(
            (1024, 8, 4096, 32000), (64, 2, 256, 512)
        )
        with torch.device("cuda"):
            self.layers = nn.ModuleList(
                Mixture(self.width, self.inner * self.width, self.experts) for _ in range(layers)
            )
            self.head = nn.Linear(self.width, self.words, bias=False)
        self.optimizer = adamw([self.layers, self.head], fused=True)

    def step(self, iteration: int) -> None:
        x = zeros(self.tokens, self.width, kind=torch.float32)
        with torch.autocast("cuda", BFLOAT16):
            for layer in self.layers:
                x = layer(x, routed(self.chance, self.experts, self.chosen * self.tokens))
            loss = functional.cross_entropy(self.head(x), zeros(self.tokens))
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


class FineMixtureOfExperts(MixtureOfExperts):
    """Mixture of 64 experts, 8 of them per token, with the model's width as inner width."""

    experts = 64
    chosen = 8
    inner = 1


def routed(chance: random.Random, experts: int, tokens: int) -> list[int]:
    """Draw the number of tokens of each expert."""
    shares = [chance.expovariate(1.0) + 0.2 for _ in range(experts)]
    counts = [int(tokens * share / sum(shares)) for share in shares]
    counts[-1] += tokens - sum(counts)
    return counts
