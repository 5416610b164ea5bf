"""Networks for sequences: experts of a GPT, and a translator of two LSTMs."""

import os

import torch
from torch import Tensor, nn
from workloads import Shape
from workloads.gpt import feed_forward

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


class Seq2Seq(nn.Module):
    """Encoder and decoder of LSTMs, with attention between them (Luong et al. 2015)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width, vocabulary = 512, 16384
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
