"""A GPT-style transformer (Radford et al. 2019): causal attention, dropout, Adam."""

import math
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from . import Network

_BATCH = 8
_VOCABULARY = 1024
_DROPOUT = 0.1


class Attention(nn.Module):
    """Causal self-attention over several heads, written out, with dropout on the weights."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        """Return attention over positions that are not `hidden`, shape (batch, length, width)."""
        batch, length, width = x.shape
        parts = self.project(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) / math.sqrt(width // self.heads)
        weights = functional.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1)
        mixed = functional.dropout(weights, _DROPOUT, self.training) @ value
        attended: Tensor = self.output(mixed.transpose(1, 2).reshape(batch, length, width))
        return attended


class Layer(nn.Module):
    """Attention and a feed-forward net, each normalised before and added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.dropout = nn.Dropout(_DROPOUT)

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        """Return hidden states, shape (batch, length, width)."""
        x = x + self.dropout(self.attention(self.norm1(x), hidden))
        fed: Tensor = x + self.dropout(self.feed_forward(self.norm2(x)))
        return fed


class GPT(nn.Module):
    """Token and position embeddings, a stack of layers, logits over the vocabulary."""

    hidden: Tensor

    def __init__(self, width: int, layers: int, heads: int, longest: int) -> None:
        super().__init__()
        self.token = nn.Embedding(_VOCABULARY, width)
        self.position = nn.Embedding(longest, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, _VOCABULARY, bias=False)
        future = torch.ones(longest, longest, dtype=torch.bool).triu(1)
        self.register_buffer("hidden", future, persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits, shape (batch, length, vocabulary)."""
        length = tokens.shape[1]
        hidden = self.hidden[:length, :length]
        x = self.token(tokens) + self.position.weight[:length]
        x = functional.dropout(x, _DROPOUT, self.training)
        for layer in self.layers:
            x = layer(x, hidden)
        logits: Tensor = self.head(self.norm(x))
        return logits


class GPTTraining(Network):
    """Prediction of the next token; each sequence counts upwards with its own stride."""

    lengths: ClassVar[tuple[int, int] | None] = (64, 160)

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.model = GPT(width=256, layers=4, heads=4, longest=160)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def batch(self, index: int, length: int | None = None) -> tuple[Tensor, ...]:
        """Make tokens and next tokens, both of shape (8, length)."""
        length = 160 if length is None else length
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + index)
        first = torch.randint(_VOCABULARY, (_BATCH, 1), generator=generator)
        stride = torch.randint(1, 8, (_BATCH, 1), generator=generator)
        tokens = (first + stride * torch.arange(length + 1)) % _VOCABULARY
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def loss(self, batch: tuple[Tensor, ...]) -> Tensor:
        inputs, targets = batch
        return functional.cross_entropy(self.model(inputs).flatten(0, 1), targets.flatten())
