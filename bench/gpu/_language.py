"""Networks for sequences: a GPT-2, optionally with experts, and a translator of two LSTMs."""

import os

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

VOCABULARY = 50304
"""Number of tokens of GPT-2, rounded up to a multiple of 64."""

LONGEST = 1024
STUB = bool(os.environ.get("PGMO_FAKECUDA"))


class Experts(nn.Module):
    """Feed-forward nets; a router sends each token to the one with the highest score.

    The number of tokens of an expert depends on the data, and so do the sizes of its blocks.
    """

    def __init__(self, width: int, count: int = 8) -> None:
        super().__init__()
        self.router = nn.Linear(width, count)
        self.experts = nn.ModuleList(feed_forward(width) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        """Return hidden states, shape (batch, length, width)."""
        tokens = x.flatten(0, 1)
        weight, choice = self.router(tokens).softmax(dim=-1).max(dim=-1)
        order = choice.argsort(stable=True)
        counts = self.counts(choice)
        parts = [
            expert(part)
            for expert, part in zip(self.experts, tokens[order].split(counts), strict=True)
        ]
        # A permutation: gathering by its inverse needs no atomic additions.
        mixed = torch.cat(parts)[order.argsort()]
        return (mixed * weight[:, None].to(mixed.dtype)).view_as(x)

    def counts(self, choice: Tensor) -> list[int]:
        """Return the number of tokens of each expert; random numbers on the stub runtime."""
        if STUB:
            drawn = torch.randint(len(self.experts), (len(choice),), device="cpu")
            return drawn.bincount(minlength=len(self.experts)).tolist()
        return choice.bincount(minlength=len(self.experts)).tolist()


def feed_forward(width: int) -> nn.Sequential:
    """Return a feed-forward net with an inner width of four times its width."""
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


class Block(nn.Module):
    """Causal attention and a feed-forward net (or experts), each added to its input."""

    def __init__(self, width: int, heads: int, experts: bool) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed: nn.Module = Experts(width) if experts else feed_forward(width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        """Return hidden states, shape (batch, length, width)."""
        batch, length, width = x.shape
        parts = self.project(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.dropout(self.output(mixed.transpose(1, 2).reshape(batch, length, width)))
        return x + self.dropout(self.feed(self.norm2(x)))


class GPT(nn.Module):
    """GPT-2. With `recompute`, the backward pass computes each block's activations again."""

    def __init__(
        self, width: int, layers: int, *, recompute: bool = False, experts: bool = False
    ) -> None:
        super().__init__()
        self.recompute = recompute
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(LONGEST, width)
        self.blocks = nn.ModuleList(Block(width, width // 64, experts) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits, shape (batch, length, vocabulary)."""
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return self.head(self.norm(x))


class Seq2Seq(nn.Module):
    """Encoder and decoder of LSTMs, with attention between them (Luong et al. 2015)."""

    def __init__(self, width: int = 512, vocabulary: int = 16384) -> None:
        super().__init__()
        self.read, self.write = (nn.Embedding(vocabulary, width) for _ in range(2))
        self.encoder, self.decoder = (
            nn.LSTM(width, width, 2, batch_first=True, dropout=0.1) for _ in range(2)
        )
        self.mix = nn.Linear(2 * width, width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits of the target, shape (batch, length, vocabulary), for (batch, length)."""
        source, state = self.encoder(self.read(tokens))
        output, _ = self.decoder(self.write(tokens.flip(1)), state)
        weights = (output @ source.transpose(1, 2)).softmax(dim=-1)
        mixed = torch.tanh(self.mix(torch.cat([weights @ source, output], dim=-1)))
        return self.head(mixed)
