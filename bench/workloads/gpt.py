"""Transformer in the shape of GPT-2 medium (Radford et al. 2019), trained with AdamW.

It has 24 layers of width 1024 with 16 heads, 50,304 tokens, up to 1,024 positions, and so 406
million parameters. Attention is PyTorch's fused operator.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from workloads import LENGTHS, Shape
from workloads.training import Training, recomputing

VOCABULARY, SMALL_VOCABULARY = 50304, 4096
MEDIUM = (1024, 24, 16, VOCABULARY)


def feed_forward(width: int) -> nn.Module:
    """Return a feed-forward net with an inner width of four times its width."""
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


class Layer(nn.Module):
    """Causal attention and a feed-forward net, each normalised before and added to its input."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.feed: nn.Module = feed_forward(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Return hidden states, shape (batch, length, width)."""
        batch, length, _ = x.shape
        parts = self.project(self.norm1(x)).view(batch, length, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.dropout(self.mix(seen.transpose(1, 2).reshape(batch, length, -1)))
        result: Tensor = x + self.dropout(self.feed(self.norm2(x)))
        return result


class Model(nn.Module):
    """Embeddings, layers, logits over the vocabulary.

    Args:
        shape: size, and options of training.
        real: width, layers, heads and vocabulary of the real size.
    """

    def __init__(self, shape: Shape, real: tuple[int, int, int, int] = MEDIUM) -> None:
        super().__init__()
        width, layers, heads, vocabulary = shape.choose(
            real, reduced=(256, 12, 8, 1024), small=(256, 4, 4, SMALL_VOCABULARY)
        )
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(LENGTHS["gpt"].longest, width)
        made = (recomputing(Layer(width, heads, shape.dropout), shape) for _ in range(layers))
        self.layers = nn.Sequential(*made)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits, shape (batch, length, vocabulary), of tokens (batch, length)."""
        order = torch.arange(tokens.shape[1], device=tokens.device)
        logits: Tensor = self.head(
            self.norm(self.layers(self.tokens(tokens) + self.positions(order)))
        )
        return logits


class GPT(Training):
    """Training that predicts the next token."""

    def build(self, shape: Shape) -> nn.Module:
        return Model(shape)

    def batch(self, length: int) -> tuple[Tensor, ...]:
        """Return tokens, shape (batch, length), and next tokens, shape (batch * length,)."""
        count = self.shape.batch
        tokens = torch.zeros(count, length, dtype=torch.long, device="cuda")
        return tokens, torch.zeros(count * length, dtype=torch.long, device="cuda")

    def loss(self, *batch: Tensor) -> Tensor:
        tokens, following = batch
        return functional.cross_entropy(self.model(tokens).flatten(0, 1), following)
