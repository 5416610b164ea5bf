"""GoogLeNet with its two auxiliary classifiers (Szegedy et al. 2014, table 1 and figure 3)."""

import torch
from torch import Tensor, nn

from workloads import Shape
from workloads.classifier import Classifier

Widths = tuple[int, int, int, int, int, int]

MODULES: tuple[tuple[Widths, ...], ...] = (
    ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
    (
        (192, 96, 208, 16, 48, 64),
        (160, 112, 224, 24, 64, 64),
        (128, 128, 256, 24, 64, 64),
        (112, 144, 288, 32, 64, 64),
        (256, 160, 320, 32, 128, 128),
    ),
    ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)),
)
"""Widths of the modules by size of the image: columns `#1x1` to `pool proj` of table 1."""

CLASSIFIED = (3, 6)
"""Indices of the modules whose inputs have an auxiliary classifier: the outputs of 4a and 4d."""


def conv(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Sequential:
    """Return a convolution and ReLU, which keep height and width at stride 1."""
    return nn.Sequential(nn.Conv2d(inputs, outputs, size, stride, size // 2), nn.ReLU(inplace=True))


class Inception(nn.Module):
    """Four paths side by side, concatenated."""

    def __init__(self, inputs: int, widths: Widths) -> None:
        super().__init__()
        one, three_in, three, five_in, five, pool = widths
        self.paths = nn.ModuleList(
            [
                conv(inputs, one, 1),
                nn.Sequential(conv(inputs, three_in, 1), conv(three_in, three, 3)),
                nn.Sequential(conv(inputs, five_in, 1), conv(five_in, five, 5)),
                nn.Sequential(nn.MaxPool2d(3, 1, 1), conv(inputs, pool, 1)),
            ]
        )
        self.outputs = one + three + five + pool

    def forward(self, x: Tensor) -> Tensor:
        """Return the concatenated paths, with unchanged height and width."""
        return torch.cat([path(x) for path in self.paths], dim=1)


def classifier(inputs: int, width: int) -> nn.Sequential:
    """Return an auxiliary classifier for features of 14x14."""
    return nn.Sequential(
        *(nn.AvgPool2d(5, 3), conv(inputs, width, 1), nn.Flatten()),
        *(nn.Linear(16 * width, 8 * width), nn.ReLU(inplace=True), nn.Dropout(0.7)),
        nn.Linear(8 * width, 1000),
    )


class Network(nn.Module):
    """Network of nine inception modules.

    Args:
        thinner: divisor of all widths.
        auxiliary: whether there are two auxiliary classifiers, which run only in training.
    """

    def __init__(self, thinner: int = 1, *, auxiliary: bool = True) -> None:
        super().__init__()
        width = 64 // thinner
        self.stem = nn.Sequential(
            *(conv(3, width, 7, 2), nn.MaxPool2d(3, 2, 1), nn.LocalResponseNorm(5)),
            *(conv(width, width, 1), conv(width, 3 * width, 3)),
            *(nn.LocalResponseNorm(5), nn.MaxPool2d(3, 2, 1)),
        )
        inputs, modules = 3 * width, []
        self.auxiliary = nn.ModuleDict()
        for size, every in enumerate(MODULES):
            for at, widths in enumerate(every):
                number = len(modules)
                if auxiliary and number in CLASSIFIED:
                    self.auxiliary[str(number)] = classifier(inputs, 128 // thinner)
                one, *rest = (width // thinner for width in widths)
                module = Inception(inputs, (one, rest[0], rest[1], rest[2], rest[3], rest[4]))
                pool = [nn.MaxPool2d(3, 2, 1)] if size and not at else []
                modules.append(nn.Sequential(*pool, module))
                inputs = module.outputs
        self.inception = nn.ModuleList(modules)
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.4), nn.Linear(inputs, 1000)
        )

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Return scores, shape (batch, 1000); in training those of all classifiers, main first."""
        others, x = [], self.stem(x)
        for number, module in enumerate(self.inception):
            if self.training and str(number) in self.auxiliary:
                others.append(self.auxiliary[str(number)](x))
            x = module(x)
        scores: Tensor = self.head(x)
        return (scores, *others) if others else scores


class GoogLeNet(Classifier):
    """Training and inference of GoogLeNet."""

    def build(self, shape: Shape) -> nn.Module:
        return Network(shape.choose(1, reduced=2, small=8))
