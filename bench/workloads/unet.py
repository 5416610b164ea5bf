"""A U-Net (Ronneberger et al. 2015) on images of 224 x 224, trained with AdamW."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from workloads import Shape
from workloads.training import Training, recomputing


def _two_convolutions(inputs: int, outputs: int, shape: Shape) -> nn.Module:
    body = nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )
    return recomputing(body, shape)


class Model(nn.Module):
    """Path down to a sixteenth of the resolution, and a path up with skip connections."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width, depth = shape.choose((64, 4), reduced=(16, 4), small=(8, 2))
        widths = [width << level for level in range(depth + 1)]
        self.down = nn.ModuleList(
            _two_convolutions(inputs, outputs, shape)
            for inputs, outputs in zip([3, *widths], widths, strict=False)
        )
        upwards = widths[-2::-1]
        self.enlarge = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in upwards)
        self.merge = nn.ModuleList(_two_convolutions(2 * w, w, shape) for w in upwards)
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return scores, shape (batch, 2, height, width), of images (batch, 3, height, width)."""
        passed: list[Tensor] = []
        for block in self.down:
            x = block(functional.max_pool2d(x, 2) if passed else x)
            passed.append(x)
        passed.pop()
        for enlarge, merge in zip(self.enlarge, self.merge, strict=True):
            x = merge(torch.cat([passed.pop(), enlarge(x)], dim=1))
        scores: Tensor = self.head(x)
        return scores


class UNet(Training):
    """Training that segments foreground and background."""

    def build(self, shape: Shape) -> nn.Module:
        return Model(shape)

    def batch(self, length: int) -> tuple[Tensor, ...]:
        """Return images, shape (batch, 3, side, side), and masks, shape (batch, side, side)."""
        side, count = 32 if self.shape.small else 224, self.shape.batch
        images = torch.zeros(count, 3, side, side, device="cuda")
        return images, torch.zeros(count, side, side, dtype=torch.long, device="cuda")

    def loss(self, *batch: Tensor) -> Tensor:
        images, masks = batch
        return functional.cross_entropy(self.model(images), masks)
