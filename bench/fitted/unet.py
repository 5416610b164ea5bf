"""The U-Net of an unconditional diffusion model on made-up images."""

import torch
from diffusers import UNet2DModel
from loop import arguments, train
from torch import Tensor, nn
from torch.nn import functional

given = arguments()
side = 16 if given.small else 64
wide = (32, 32) if given.small else (128, 256, 256, 512)
blocks = len(wide)
network = UNet2DModel(
    sample_size=side,
    block_out_channels=wide,
    layers_per_block=1 if given.small else 2,
    down_block_types=("DownBlock2D",) * (blocks - 1) + ("AttnDownBlock2D",),
    up_block_types=("AttnUpBlock2D",) + ("UpBlock2D",) * (blocks - 1),
)


def loss(model: nn.Module, batch: int) -> Tensor:
    """Return the mean squared error of the predicted noise."""
    noise = torch.randn(batch, 3, side, side).cuda()
    times = torch.randint(1000, (batch,)).cuda()
    return functional.mse_loss(model(noise, times).sample, noise)


train(given, network, loss)
