"""One step, of training or of inference: gradients dropped before, nothing kept after."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn, optim
from torch.utils.checkpoint import checkpoint

from workloads import Shape


class Training(ABC):
    """A network, its optimizer and its input.

    Attributes:
        optimizer: makes one for the parameters.
        precision: of the forward pass; float32 goes without autocast.
    """

    optimizer: ClassVar[Callable[..., optim.Optimizer]] = optim.AdamW
    precision: ClassVar[torch.dtype] = torch.bfloat16

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        with torch.device("cuda"):
            self.model = self.build(shape).train(shape.train)
        self.optimize = type(self).optimizer(self.model.parameters())

    @abstractmethod
    def build(self, shape: Shape) -> nn.Module:
        """Makes the model on torch's current default device."""

    @abstractmethod
    def batch(self, length: int) -> tuple[Tensor, ...]:
        """Makes an input; `length` in tokens, ignored where there are none."""

    @abstractmethod
    def loss(self, *batch: Tensor) -> Tensor:
        """The scalar loss."""

    def step(self, length: int = 0) -> None:
        """Trains on one batch, or infers one."""
        batch = self.batch(length)
        if not self.shape.train:
            with torch.inference_mode(), self._autocast():
                self.model(*batch[:-1])
            return
        self.optimize.zero_grad(set_to_none=True)
        with self._autocast():
            loss = self.loss(*batch)
        loss.backward()
        self.optimize.step()

    def _autocast(self) -> torch.autocast:
        return torch.autocast("cuda", torch.bfloat16, self.precision is not torch.float32)


class Recomputing(nn.Module):
    """A module that keeps its input only, and runs again when the backward pass comes to it."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *inputs: Any) -> Any:
        """What the inner module gives."""
        return checkpoint(self.inner, *inputs, use_reentrant=False)


def recomputing(module: nn.Module, shape: Shape) -> nn.Module:
    """The module, recomputed where the shape says so."""
    return Recomputing(module) if shape.recompute else module
