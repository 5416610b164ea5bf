"""One training step: forward pass, backward pass, AdamW."""

from collections.abc import Callable
from typing import Any

import torch

from rehearsed_models import Step


def training(
    model: torch.nn.Module,
    loss_of: Callable[[torch.nn.Module], torch.Tensor],
    device: str,
    *,
    autocast: torch.dtype | None = None,
) -> Step:
    """A step of a model that is moved to the device first.

    Args:
        model: on the host.
        loss_of: makes a batch on the device, runs the model on it, and returns the loss.
        device: "cuda" or "cpu".
        autocast: the type that the forward pass is run in.
    """
    model.to(device)
    model.train()
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad])

    def step() -> Any:
        with torch.autocast(device, dtype=autocast, enabled=autocast is not None):
            loss = loss_of(model)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step
