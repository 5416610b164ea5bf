"""A sequence-to-sequence LSTM with teacher forcing (Sutskever et al. 2014), trained with Adam."""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from . import Network

_BATCH = 32
_VOCABULARY = 2000
_START = 0


class Seq2Seq(nn.Module):
    """An encoder whose final state starts a decoder that is fed the true previous tokens."""

    def __init__(self, width: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.source = nn.Embedding(_VOCABULARY, width)
        self.target = nn.Embedding(_VOCABULARY, width)
        self.encoder = nn.LSTM(width, hidden, layers, batch_first=True)
        self.decoder = nn.LSTM(width, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, _VOCABULARY)

    def forward(self, source: Tensor, previous: Tensor) -> Tensor:
        """Return logits, shape (batch, length, vocabulary)."""
        _, state = self.encoder(self.source(source))
        decoded, _ = self.decoder(self.target(previous), state)
        logits: Tensor = self.head(decoded)
        return logits


class LSTMTraining(Network):
    """Reversal of a sequence of tokens."""

    lengths: ClassVar[tuple[int, int] | None] = (16, 48)

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.model = Seq2Seq(width=128, hidden=256, layers=2)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=3e-3)

    def batch(self, index: int, length: int | None = None) -> tuple[Tensor, ...]:
        """Make source, previous and target tokens, each of shape (32, length)."""
        length = 48 if length is None else length
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + index)
        # Cubed, so that some tokens are frequent, as words are in texts.
        chance = torch.rand(_BATCH, length, generator=generator) ** 3
        source = 1 + (chance * (_VOCABULARY - 1)).long()
        target = source.flip(1)
        previous = functional.pad(target[:, :-1], (1, 0), value=_START)
        return source, previous, target

    def loss(self, batch: tuple[Tensor, ...]) -> Tensor:
        source, previous, target = batch
        return functional.cross_entropy(
            self.model(source, previous).flatten(0, 1), target.flatten()
        )
