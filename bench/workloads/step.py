"""Networks of real depth at reduced width that return their loss, for training steps on a CPU.

module, inputs = create("unet")
module(*inputs).backward()
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from workloads import Shape, densenet, gpt, resnet, unet

BATCHES = {"unet": 8, "resnet": 16, "densenet": 32, "gpt": 8}
"""Samples of a batch of each network."""

TITLES = {
    "unet": "U-Net",
    "resnet": "ResNet-50",
    "densenet": "DenseNet",
    "gpt": "GPT, 12 layers",
    "gpt_dropout": "GPT, 12 layers, dropout",
}
NAMES = tuple(TITLES)

_MODELS = {
    "unet": unet.Model,
    "resnet": resnet.network,
    "densenet": densenet.network,
    "gpt": gpt.Model,
}
_SIDES = {"unet": 128, "resnet": 128, "densenet": 128}
_LENGTH = 256


class WithLoss(nn.Module):
    """Network with the cross entropy of its scores."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Return the scalar loss. Classes are the last dimension of three, otherwise the second."""
        scores = self.network(inputs)
        if scores.dim() == 3:
            scores, targets = scores.flatten(0, 1), targets.flatten()
        return functional.cross_entropy(scores, targets)


def create(
    name: str, *, recompute: bool = False, small: bool = False, seed: int = 0
) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """Build a network with its loss, inputs and targets; equal seeds give equal bits.

    Args:
        name: one of `NAMES`.
        recompute: whether its blocks are under `torch.utils.checkpoint`.
        small: whether to build a few thin layers and small inputs, for tests.
        seed: seed of weights and inputs.
    """
    kind, _, dropout = name.partition("_")
    batch = 4 if small else BATCHES[kind]
    shape = Shape(batch, recompute, small, reduced=True, dropout=0.1 if dropout else 0.0)
    torch.manual_seed(seed)
    module = WithLoss(_MODELS[kind](shape))
    return module, _batch(kind, batch, small)


def _batch(kind: str, batch: int, small: bool) -> tuple[Tensor, Tensor]:
    if kind == "gpt":
        tokens = torch.randint(1024, (batch, 129 if small else _LENGTH + 1))
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    side = 64 if small else _SIDES[kind]
    images = torch.randn(batch, 3, side, side)
    if kind == "unet":
        return images, torch.randint(2, (batch, side, side))
    return images, torch.randint(1000, (batch,))
