"""A ResNet in the style of He et al. 2016, section 4.2: residual blocks, batch norm, SGD."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from . import Network

_CLASSES = 10
_BATCH = 32
_IMAGE = 48


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return features, shape (batch, outputs, height / stride, width / stride)."""
        y = functional.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return functional.relu(y + self.shortcut(x))


class ResNet(nn.Module):
    """A stem, three stages of residual blocks at falling resolution, a linear classifier."""

    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        layers: list[nn.Module] = []
        inputs = width
        for stage in range(3):
            outputs = width << stage
            for block in range(blocks):
                layers.append(ResidualBlock(inputs, outputs, 2 if stage and not block else 1))
                inputs = outputs
        self.stages = nn.Sequential(*layers)
        self.head = nn.Linear(inputs, _CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return class scores, shape (batch, 10)."""
        features: Tensor = self.stages(self.stem(x)).mean(dim=(2, 3))
        scores: Tensor = self.head(features)
        return scores


class ResNetTraining(Network):
    """Classification of noisy images of ten fixed patterns."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.model = ResNet(width=24, blocks=2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        generator = torch.Generator().manual_seed(seed)
        self._patterns = torch.randn(_CLASSES, 3, _IMAGE, _IMAGE, generator=generator)

    def batch(self, index: int, length: int | None = None) -> tuple[Tensor, ...]:
        """Make images, shape (32, 3, 48, 48), and labels, shape (32,)."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + index)
        labels = torch.randint(_CLASSES, (_BATCH,), generator=generator)
        noise = torch.randn(_BATCH, 3, _IMAGE, _IMAGE, generator=generator)
        return 0.3 * self._patterns[labels] + noise, labels

    def loss(self, batch: tuple[Tensor, ...]) -> Tensor:
        images, labels = batch
        return functional.cross_entropy(self.model(images), labels)
