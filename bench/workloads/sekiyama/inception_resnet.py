"""Inception-ResNet-v2 (Szegedy et al. 2016) with the smaller stem of TF-slim and timm."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional

from workloads import Shape
from workloads.classifier import Classifier

Size = int | tuple[int, int]
Layer = tuple[int, Size]  # outputs and size of the kernel


def conv(
    inputs: int, outputs: int, size: Size, stride: int = 1, *, keeps: bool = True
) -> nn.Sequential:
    """Return a convolution, batch norm and ReLU; at stride 1, `keeps` pads to equal sizes."""
    padding = tuple(one // 2 for one in (size if isinstance(size, tuple) else (size, size)))
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, padding if keeps else 0, bias=False),
        nn.BatchNorm2d(outputs, eps=1e-3),
        nn.ReLU(inplace=True),
    )


def path(inputs: int, layers: Iterable[Layer], *, halves: bool = False) -> nn.Sequential:
    """Return successive convolutions; with `halves`, the last one halves height and width."""
    parts, left = [], list(layers)
    for at, (outputs, size) in enumerate(left):
        last = halves and at == len(left) - 1
        parts.append(conv(inputs, outputs, size, 2 if last else 1, keeps=not last))
        inputs = outputs
    return nn.Sequential(*parts)


class Beside(nn.Module):
    """Parallel paths, whose results are concatenated."""

    def __init__(self, *paths: nn.Module) -> None:
        super().__init__()
        self.paths = nn.ModuleList(paths)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([one(x) for one in self.paths], dim=1)


class Residual(nn.Module):
    """Parallel paths and a projection; the scaled result is added to the input."""

    def __init__(
        self, inputs: int, scale: float, *paths: tuple[Layer, ...], relu: bool = True
    ) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            Beside(*(path(inputs, layers) for layers in paths)),
            nn.Conv2d(sum(layers[-1][0] for layers in paths), inputs, 1),
        )
        self.scale, self.relu = scale, relu

    def forward(self, x: Tensor) -> Tensor:
        """Return features with the shape of the input."""
        x = self.inner(x) * self.scale + x
        return functional.relu(x) if self.relu else x


def network(shape: Shape) -> nn.Module:
    """Build the network for images of 299x299: stem, 10 + 20 + 10 residual modules, classifier."""
    thinner = shape.choose(1, reduced=2, small=16)
    counts = shape.choose((10, 20, 10), reduced=(10, 20, 10), small=(1, 1, 1))

    def w(width: int) -> int:
        return width // thinner

    a, b, c = w(320), w(1088), w(2080)
    layers: list[nn.Module] = [
        *(conv(3, w(32), 3, 2, keeps=False), conv(w(32), w(32), 3, keeps=False)),
        *(conv(w(32), w(64), 3), nn.MaxPool2d(3, 2), conv(w(64), w(80), 1)),
        *(conv(w(80), w(192), 3, keeps=False), nn.MaxPool2d(3, 2)),
        Beside(
            conv(w(192), w(96), 1),
            path(w(192), [(w(48), 1), (w(64), 5)]),
            path(w(192), [(w(64), 1), (w(96), 3), (w(96), 3)]),
            nn.Sequential(nn.AvgPool2d(3, 1, 1, count_include_pad=False), conv(w(192), w(64), 1)),
        ),
    ]
    for _ in range(counts[0]):
        one, two = ((w(32), 1),), ((w(32), 1), (w(32), 3))
        layers.append(Residual(a, 0.17, one, two, ((w(32), 1), (w(48), 3), (w(64), 3))))
    layers.append(
        Beside(
            path(a, [(w(384), 3)], halves=True),
            path(a, [(w(256), 1), (w(256), 3), (w(384), 3)], halves=True),
            nn.MaxPool2d(3, 2),
        )
    )
    for _ in range(counts[1]):
        two_ways: tuple[Layer, ...] = ((w(128), 1), (w(160), (1, 7)), (w(192), (7, 1)))
        layers.append(Residual(b, 0.1, ((w(192), 1),), two_ways))
    layers.append(
        Beside(
            path(b, [(w(256), 1), (w(384), 3)], halves=True),
            path(b, [(w(256), 1), (w(288), 3)], halves=True),
            path(b, [(w(256), 1), (w(288), 3), (w(320), 3)], halves=True),
            nn.MaxPool2d(3, 2),
        )
    )
    for number in range(counts[2]):
        last = number == counts[2] - 1
        two_ways = ((w(192), 1), (w(224), (1, 3)), (w(256), (3, 1)))
        scale = 1.0 if last else 0.2
        layers.append(Residual(c, scale, ((w(192), 1),), two_ways, relu=not last))
    layers += [conv(c, w(1536), 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2)]
    return nn.Sequential(*layers, nn.Linear(w(1536), 1000))


class InceptionResNet(Classifier):
    """Training and inference of Inception-ResNet-v2, with the optimizer of the other networks."""

    side = 299

    def build(self, shape: Shape) -> nn.Module:
        return network(shape)
