"""DenseNet (Huang et al. 2017): every layer reads the concatenation of all earlier results."""

import torch
from torch import Tensor, nn

from workloads import Shape
from workloads.training import recomputing

_NARROWING = 4


class Layer(nn.Module):
    """Norms and convolutions (1x1, 3x3), whose `growth` channels are appended to the input."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.ReLU(),
            nn.Conv2d(inputs, _NARROWING * growth, 1, bias=False),
            nn.BatchNorm2d(_NARROWING * growth),
            nn.ReLU(),
            nn.Conv2d(_NARROWING * growth, growth, 3, padding=1, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return features, shape (batch, inputs + growth, height, width)."""
        return torch.cat([x, self.body(x)], dim=1)


def network(shape: Shape) -> nn.Module:
    """Build the network: a stem, four blocks with transitions, a classifier of 1,000 classes."""
    counts, growth = shape.choose(
        ((6, 12, 24, 16), 32), reduced=((4, 8, 12, 8), 12), small=((2, 2, 2, 2), 8)
    )
    channels = 2 * growth
    layers: list[nn.Module] = [
        nn.Conv2d(3, channels, 7, 2, padding=3, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, padding=1),
    ]
    for block, count in enumerate(counts):
        if block:
            halved = channels // 2
            layers += [nn.BatchNorm2d(channels), nn.ReLU()]
            layers += [nn.Conv2d(channels, halved, 1, bias=False), nn.AvgPool2d(2)]
            channels = halved
        for _ in range(count):
            layers.append(recomputing(Layer(channels, growth), shape))
            channels += growth
    layers += [nn.BatchNorm2d(channels), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(channels, 1000))
