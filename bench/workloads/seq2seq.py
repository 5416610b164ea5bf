"""A sequence-to-sequence LSTM with teacher forcing (Sutskever et al. 2014), trained with AdamW.

Without cuDNN an LSTM asks for blocks at each time step, so that every length has a request
sequence of its own: the hardest case for a planner.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from workloads import Shape
from workloads.training import Training, recomputing


class Model(nn.Module):
    """An encoder; a decoder that each of its layers' last state starts; logits."""

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
        """Gives logits (batch, length, words) for two sequences (batch, length)."""
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
    """Says another sequence of the same length."""

    def build(self, shape: Shape) -> nn.Module:
        """See `Model`."""
        return Model(shape)

    def batch(self, length: int) -> tuple[Tensor, ...]:
        """Source and previous tokens, both (batch, length), and the next ones (batch * length,)."""
        count = self.shape.batch
        source = torch.zeros(count, length, dtype=torch.long, device="cuda")
        previous = torch.zeros(count, length, dtype=torch.long, device="cuda")
        return source, previous, torch.zeros(count * length, dtype=torch.long, device="cuda")

    def loss(self, *batch: Tensor) -> Tensor:
        """Cross entropy of the next tokens."""
        source, previous, following = batch
        return functional.cross_entropy(self.model(source, previous).flatten(0, 1), following)
