"""ResNet-50 on made-up images."""

import timm
import torch
from loop import arguments, train
from torch import Tensor, nn
from torch.nn import functional

given = arguments()
side = 64 if given.small else 224


def loss(model: nn.Module, batch: int) -> Tensor:
    """Return the cross entropy of the classes."""
    images = torch.randn(batch, 3, side, side).cuda()
    return functional.cross_entropy(model(images), torch.randint(1000, (batch,)).cuda())


train(given, timm.create_model("resnet10t" if given.small else "resnet50"), loss)
