"""Networks for sequences: GPT-2's shapes, with experts if wanted, and a translator of two LSTMs."""

import os

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

VOCABULARY = 50304
"""GPT-2's, rounded up to a multiple of 64."""

LONGEST = 1024
STUB = bool(os.environ.get("PGMO_FAKECUDA"))


class Experts(nn.Module):
    """A feed-forward net per expert; each token goes to the one that a router likes best.

    How many tokens an expert gets depends on the data, and so do the sizes of its blocks.
    """

    def __init__(self, width: int, count: int = 8) -> None:
        super().__init__()
        self.router = nn.Linear(width, count)
        self.experts = nn.ModuleList(feed_forward(width) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        """Keeps the shape (batch, length, width)."""
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
        """How many tokens each expert gets; drawn where values mean nothing."""
        if STUB:
            drawn = torch.randint(len(self.experts), (len(choice),), device="cpu")
            return drawn.bincount(minlength=len(self.experts)).tolist()
        return choice.bincount(minlength=len(self.experts)).tolist()


def feed_forward(width: int) -> nn.Sequential:
    """Four times as wide inside."""
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
        """Keeps the shape (batch, length, width)."""
        batch, length, width = x.shape
        parts = self.project(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.dropout(self.output(mixed.transpose(1, 2).reshape(batch, length, width)))
        return x + self.dropout(self.feed(self.norm2(x)))


class GPT(nn.Module):
    """GPT-2's shapes; `recompute` computes each block's activations again in the backward pass."""

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
        """Gives logits (batch, length, vocabulary)."""
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return self.head(self.norm(x))


class Seq2Seq(nn.Module):
    """An LSTM that reads and one that writes, with attention in between (Luong et al. 2015)."""

    def __init__(self, width: int = 512, vocabulary: int = 16384) -> None:
        super().__init__()
        self.read, self.write = (nn.Embedding(vocabulary, width) for _ in range(2))
        self.encoder, self.decoder = (
            nn.LSTM(width, width, 2, batch_first=True, dropout=0.1) for _ in range(2)
        )
        self.mix = nn.Linear(2 * width, width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        """Reads (batch, length) and gives logits (batch, length, vocabulary) of what it writes."""
        source, state = self.encoder(self.read(tokens))
        output, _ = self.decoder(self.write(tokens.flip(1)), state)
        weights = (output @ source.transpose(1, 2)).softmax(dim=-1)
        mixed = torch.tanh(self.mix(torch.cat([weights @ source, output], dim=-1)))
        return self.head(mixed)
