"""ResNet-50 (He et al. 2016) on images of 224 x 224, trained with momentum."""

import functools

import torch
from torch import Tensor, nn, optim
from torch.nn import functional

from workloads import Shape
from workloads.classifier import Classifier
from workloads.training import recomputing

_WIDENING = 4


class Bottleneck(nn.Module):
    """Convolutions of 1x1, 3x3 and 1x1 and a shortcut around them."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = _WIDENING * width
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return features, shape (batch, 4 * width, height / stride, width / stride)."""
        return functional.relu(self.body(x) + self.shortcut(x), inplace=True)


def network(shape: Shape) -> nn.Module:
    """Build the network: a stem, four stages of bottlenecks, a classifier of 1,000 classes."""
    counts, width = shape.choose(
        ((3, 4, 6, 3), 64), reduced=((3, 4, 6, 3), 32), small=((1, 1, 1, 1), 8)
    )
    layers: list[nn.Module] = [
        nn.Conv2d(3, width, 7, 2, padding=3, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, padding=1),
    ]
    inputs = width
    for stage, count in enumerate(counts):
        for index in range(count):
            stride = 2 if stage and not index else 1
            layers.append(recomputing(Bottleneck(inputs, width << stage, stride), shape))
            inputs = _WIDENING * width << stage
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000)]
    return nn.Sequential(*layers)


class ResNet(Classifier):
    """Training of ResNet-50 under autocast."""

    optimizer = functools.partial(optim.SGD, lr=0.1, momentum=0.9)
    precision = torch.bfloat16

    def build(self, shape: Shape) -> nn.Module:
        if shape.small:
            self.side = 64
        return network(shape)
