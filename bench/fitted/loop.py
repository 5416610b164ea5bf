"""Arguments and training loop of the scripts: a plain loop with AdamW."""

import argparse
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--small", action="store_true", help="a tiny network, for tests")
    return parser.parse_args()


def language_loss(words: int, length: int) -> Callable[[nn.Module, int], Tensor]:
    """Return a function that returns a transformers model's loss on a batch of random tokens."""

    def loss(model: nn.Module, batch: int) -> Tensor:
        tokens = torch.randint(words, (batch, length)).cuda()
        return model(tokens, labels=tokens).loss

    return loss


def train(given: Any, model: nn.Module, loss_of: Callable[[nn.Module, int], Tensor]) -> None:
    """Train for `given.steps` steps."""
    model.to("cuda").train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(given.steps):
        loss_of(model, given.batch_size).backward()
        optimizer.step()
        optimizer.zero_grad()
