"""Four real networks that train on the CPU within seconds."""

import importlib
from abc import ABC, abstractmethod
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from torch import Tensor, nn, optim

# The modules import torch, so they are opened only when asked for.
_CLASSES = {
    "resnet": "ResNetTraining",
    "unet": "UNetTraining",
    "gpt": "GPTTraining",
    "lstm": "LSTMTraining",
}
TITLES = {
    "resnet": "ResNet, batch norm, SGD",
    "unet": "U-Net, skip connections, SGD",
    "gpt": "GPT, dropout, Adam",
    "lstm": "seq2seq LSTM, teacher forcing, Adam",
}
NAMES = tuple(_CLASSES)
VARYING_NAMES = ("gpt", "lstm")


class Network(ABC):
    """A model, its optimizer and an endless supply of seeded batches.

    Attributes:
        lengths: the shortest and the longest sequence, or None where the input has no length.
        model: the module that is trained.
        optimizer: the optimizer over all of its parameters.
        seed: everything random follows from it.
    """

    lengths: ClassVar[tuple[int, int] | None] = None
    model: "nn.Module"
    optimizer: "optim.Optimizer"
    seed: int

    @abstractmethod
    def batch(self, index: int, length: int | None = None) -> "tuple[Tensor, ...]":
        """Makes batch number `index`; the same index and length always give the same tensors.

        Args:
            index: number of the batch, from 0.
            length: sequence length; None for the longest. Ignored by networks without one.
        """

    @abstractmethod
    def loss(self, batch: "tuple[Tensor, ...]") -> "Tensor":
        """Runs the forward pass and returns the scalar loss."""

    def step(self, batch: "tuple[Tensor, ...]") -> "Tensor":
        """Trains on one batch and returns the detached loss, shape ()."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach()


def module_of(name: str) -> ModuleType:
    """The module of a network, whose constants `_BATCH` and `_IMAGE` size its batches."""
    return importlib.import_module(f"{__name__}.{name}")


def create(name: str, seed: int) -> Network:
    """Builds the network called `name` with weights drawn from `seed`.

    Seeds torch's global generator, which dropout goes on using.
    """
    import torch

    torch.manual_seed(seed)
    network: Network = getattr(module_of(name), _CLASSES[name])(seed)
    return network
