"""Networks for images, written out, so that nothing but torch is needed.

Krizhevsky et al. 2012 (AlexNet, as in torchvision), Szegedy et al. 2015 (GoogLeNet, with batch
normalisation). ResNet-50 and U-Net are those of `bench/workloads`.
"""

import torch
from torch import Tensor, nn


def conv_norm(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Sequential:
    """Convolution, batch normalisation, ReLU; keeps height and width at stride 1."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


def alexnet() -> nn.Module:
    """For 224x224: the last pooling gives 6x6 by itself."""
    relu = nn.ReLU(inplace=True)
    return nn.Sequential(
        *(nn.Conv2d(3, 64, 11, 4, 2), relu, nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(64, 192, 5, padding=2), relu, nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(192, 384, 3, padding=1), relu),
        *(nn.Conv2d(384, 256, 3, padding=1), relu),
        *(nn.Conv2d(256, 256, 3, padding=1), relu, nn.MaxPool2d(3, 2)),
        *(nn.Flatten(), nn.Dropout(), nn.Linear(256 * 6 * 6, 4096), relu),
        *(nn.Dropout(), nn.Linear(4096, 4096), relu, nn.Linear(4096, 1000)),
    )


class Inception(nn.Module):
    """Four paths side by side, concatenated."""

    def __init__(self, inputs: int, widths: tuple[int, int, int, int, int, int]) -> None:
        super().__init__()
        one, three_in, three, five_in, five, pool = widths
        self.paths = nn.ModuleList(
            [
                conv_norm(inputs, one, 1),
                nn.Sequential(conv_norm(inputs, three_in, 1), conv_norm(three_in, three, 3)),
                nn.Sequential(conv_norm(inputs, five_in, 1), conv_norm(five_in, five, 5)),
                nn.Sequential(nn.MaxPool2d(3, 1, 1), conv_norm(inputs, pool, 1)),
            ]
        )

    def forward(self, x: Tensor) -> Tensor:
        """Keeps height and width."""
        return torch.cat([path(x) for path in self.paths], dim=1)


def googlenet() -> nn.Module:
    """Nine inception modules, without the auxiliary classifiers."""

    def pool() -> nn.Module:
        return nn.MaxPool2d(3, 2, 1)

    return nn.Sequential(
        *(conv_norm(3, 64, 7, 2), pool(), conv_norm(64, 64, 1), conv_norm(64, 192, 3), pool()),
        Inception(192, (64, 96, 128, 16, 32, 32)),
        *(Inception(256, (128, 128, 192, 32, 96, 64)), pool()),
        Inception(480, (192, 96, 208, 16, 48, 64)),
        Inception(512, (160, 112, 224, 24, 64, 64)),
        Inception(512, (128, 128, 256, 24, 64, 64)),
        Inception(512, (112, 144, 288, 32, 64, 64)),
        *(Inception(528, (256, 160, 320, 32, 128, 128)), pool()),
        Inception(832, (256, 160, 320, 32, 128, 128)),
        Inception(832, (384, 192, 384, 48, 128, 128)),
        *(Mean(), nn.Dropout(0.4), nn.Linear(1024, 1000)),
    )


class Mean(nn.Module):
    """Average over height and width."""

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, height, width) to (batch, channels)."""
        return x.mean(dim=(2, 3))
