"""Sequence-to-sequence LSTM with teacher forcing (Sutskever et al. 2014), trained with AdamW.

Without cuDNN an LSTM requests blocks at each time step. So every length has its own sequence of
requests, which is the hardest case for a planner.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from workloads import Shape
from workloads.training import Training, recomputing


class Model(nn.Module):
    """Encoder, decoder that starts with the last states of the encoder's layers, and logits."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width, hidden, layers, words = (32, 64, 2, 100) if shape.small else (512, 1024, 4, 32000)
        self.source = nn.Embedding(words, width)
        self.target = nn.Embedding(words, width)
        inputs = [width] + [hidden] * (layers - 1)
        self.encoder = nn.ModuleList(self._layer(size, hidden, shape) for size in inputs)
        self.decoder = nn.ModuleList(self._layer(size, hidden, shape) for size in inputs)
        self.head = nn.Linear(hidden, words)

    @staticmethod
    def _layer(inputs: int, hidden: int, shape: Shape) -> nn.Module:
        return recomputing(nn.LSTM(inputs, hidden, batch_first=True), shape)

    def forward(self, source: Tensor, previous: Tensor) -> Tensor:
        """Return logits, shape (batch, length, words), of two sequences (batch, length)."""
        x, states = self.source(source), []
        for layer in self.encoder:
            x, state = layer(x)
            states.append(state)
        y = self.target(previous)
        for layer, state in zip(self.decoder, states, strict=True):
            y, _ = layer(y, state)
        logits: Tensor = self.head(y)
        return logits


class Seq2Seq(Training):
    """Training that predicts a sequence from another one of the same length."""

    def build(self, shape: Shape) -> nn.Module:
        return Model(shape)

    def batch(self, length: int) -> tuple[Tensor, ...]:
        """Return source and previous tokens (batch, length), and next tokens (batch * length,)."""
        count = self.shape.batch
        source = torch.zeros(count, length, dtype=torch.long, device="cuda")
        previous = torch.zeros(count, length, dtype=torch.long, device="cuda")
        return source, previous, torch.zeros(count * length, dtype=torch.long, device="cuda")

    def loss(self, *batch: Tensor) -> Tensor:
        source, previous, following = batch
        return functional.cross_entropy(self.model(source, previous).flatten(0, 1), following)
