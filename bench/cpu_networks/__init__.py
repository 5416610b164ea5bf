"""Four real networks that train on the CPU within seconds."""

import importlib
from abc import ABC, abstractmethod
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from torch import Tensor, nn, optim

# The modules import torch, so `module_of` imports them on demand.
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
        lengths: the shortest and the longest sequence in tokens; None if inputs have no length.
        model: the module that is trained.
        optimizer: the optimizer over all of its parameters.
        seed: seed of all random numbers.
    """

    lengths: ClassVar[tuple[int, int] | None] = None
    model: "nn.Module"
    optimizer: "optim.Optimizer"
    seed: int

    @abstractmethod
    def batch(self, index: int, length: int | None = None) -> "tuple[Tensor, ...]":
        """Make a batch; equal arguments give equal tensors.

        Args:
            index: number of the batch, from 0.
            length: sequence length in tokens; None for the longest. Networks whose inputs have no
                length ignore it.
        """

    @abstractmethod
    def loss(self, batch: "tuple[Tensor, ...]") -> "Tensor":
        """Run the forward pass and return the loss, shape ()."""

    def step(self, batch: "tuple[Tensor, ...]") -> "Tensor":
        """Train on one batch and return the detached loss, shape ()."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach()


def module_of(name: str) -> ModuleType:
    """Import the module of a network; its `_BATCH` and `_IMAGE` are the sizes of its batches."""
    return importlib.import_module(f"{__name__}.{name}")


def create(name: str, seed: int) -> Network:
    """Build the network `name` with weights drawn from `seed`.

    Also seeds torch's global generator, from which dropout draws.
    """
    import torch

    torch.manual_seed(seed)
    network: Network = getattr(module_of(name), _CLASSES[name])(seed)
    return network
