"""A U-Net (Ronneberger et al. 2015, section 2): skip connections that keep activations alive."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from . import Network

_BATCH = 8
_IMAGE = 128


def _double_conv(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    """A contracting path, a bottom, an expanding path that concatenates the contracting one."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        widths = [width << level for level in range(depth + 1)]
        self.down = nn.ModuleList(
            _double_conv(inputs, outputs)
            for inputs, outputs in zip([1, *widths[:-2]], widths[:-1], strict=True)
        )
        self.bottom = _double_conv(widths[-2], widths[-1])
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(2 * outputs, outputs, 2, stride=2) for outputs in widths[-2::-1]
        )
        self.merge = nn.ModuleList(_double_conv(2 * outputs, outputs) for outputs in widths[-2::-1])
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return a mask logit for each pixel, shape (batch, 1, height, width)."""
        skips: list[Tensor] = []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = functional.max_pool2d(x, 2)
        x = self.bottom(x)
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat([skips.pop(), up(x)], dim=1))
        mask: Tensor = self.head(x)
        return mask


class UNetTraining(Network):
    """Segmentation of bright discs in noisy images."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.model = UNet(width=16, depth=3)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        axis = torch.arange(_IMAGE, dtype=torch.float32)
        self._rows, self._columns = axis.view(1, -1, 1), axis.view(1, 1, -1)

    def batch(self, index: int, length: int | None = None) -> tuple[Tensor, ...]:
        """Make images and masks, both of shape (8, 1, 128, 128)."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + index)
        centre = torch.rand(2, _BATCH, 1, 1, generator=generator) * _IMAGE
        radius = (0.1 + 0.2 * torch.rand(_BATCH, 1, 1, generator=generator)) * _IMAGE
        distance = (self._rows - centre[0]) ** 2 + (self._columns - centre[1]) ** 2
        masks = (distance < radius**2).float().unsqueeze(1)
        noise = torch.randn(masks.shape, generator=generator)
        return masks + 0.5 * noise, masks

    def loss(self, batch: tuple[Tensor, ...]) -> Tensor:
        images, masks = batch
        return functional.binary_cross_entropy_with_logits(self.model(images), masks)
