"""Transformer of 40 M parameters and its training loop, for scripts that add one part each."""

import argparse
import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--small", action="store_true", help="a tiny network, for tests")


class Network(nn.Module):
    """Transformer that predicts a word for each token.

    Args:
        small: whether to build a tiny network, for tests.
    """

    def __init__(self, *, small: bool) -> None:
        super().__init__()
        words, width, layers, self.length = (500, 64, 2, 32) if small else (8000, 512, 10, 256)
        self.embedding = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True, norm_first=True)
        self.layers = nn.ModuleList(copy.deepcopy(layer) for _ in range(layers))
        self.head = nn.Linear(width, words)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return scores of all words, shape (batch, length, words)."""
        hidden = self.embedding(tokens)
        for layer in self.layers:
            hidden = layer(hidden)
        scores: Tensor = self.head(hidden)
        return scores

    def tokens(self, batch: int) -> Tensor:
        """Return random words, shape (batch, length)."""
        return torch.randint(self.head.out_features, (batch, self.length)).cuda()

    def loss(self, batch: int) -> Tensor:
        """Run a forward pass over random words, and return the loss."""
        tokens = self.tokens(batch)
        return functional.cross_entropy(self(tokens).flatten(0, 1), tokens.flatten())


class Words(Dataset[Tensor]):
    """Samples of random words."""

    def __init__(self, network: Network, samples: int) -> None:
        self.network, self.samples = network, samples

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, at: int) -> Tensor:
        return torch.randint(self.network.head.out_features, (self.network.length,))


def train(
    given: Any,
    model: Network,
    optimizer: Any = None,
    loss_of: Callable[[], Tensor] | None = None,
    after: Callable[[int], object] = lambda step: None,
) -> None:
    """Train for the given number of steps.

    Args:
        given: the arguments of the script.
        model: a model on the card.
        optimizer: AdamW by default.
        loss_of: runs the forward pass and returns the loss; `model.loss` by default.
        after: called after each step with its number, from 1 on.
    """
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(1, given.steps + 1):
        optimizer.zero_grad()
        loss = loss_of() if loss_of else model.loss(given.batch_size)
        loss.backward()
        optimizer.step()
        after(step)
