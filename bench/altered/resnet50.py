"""ResNet-50 on made-up images."""

import timm
import torch
from torch import Tensor, nn
from torch.nn import functional
from ways import arguments, train

given = arguments(32)
side = 64 if given.small else 224


def loss(model: nn.Module) -> Tensor:
    """Return the cross entropy of the classes."""
    images = torch.randn(given.batch_size, 3, side, side).cuda()
    labels = torch.randint(1000, (given.batch_size,)).cuda()
    return functional.cross_entropy(model(images), labels)


model = timm.create_model("resnet10t" if given.small else "resnet50")
stages = [model.layer1, model.layer2, model.layer3, model.layer4]
train(
    given, model, loss, [block for stage in stages for block in stage], model.set_grad_checkpointing
)
