"""A diffusion U-Net of diffusers on pictures of 64 by 64, with a moving average of its weights."""

import copy

import torch
from torch import nn
from torch.nn import functional

from loops import Setting
from loops.loop import BFLOAT16, Loop, adamw, loaded, zeros


class Diffusion(Loop):
    """Training with eight pictures per batch; shapes do not vary."""

    def __init__(self, setting: Setting) -> None:
        from diffusers import UNet2DModel  # uses CUDA, so import it only in a job's process

        super().__init__(setting)
        self.side = setting.choose(64, 16)
        down = ("DownBlock2D", "DownBlock2D", "AttnDownBlock2D", "DownBlock2D")
        up = ("UpBlock2D", "AttnUpBlock2D", "UpBlock2D", "UpBlock2D")
        with torch.device("cuda"):
            self.model = UNet2DModel(
                sample_size=self.side,
                block_out_channels=setting.choose((128, 128, 256, 256), (32, 32, 32, 32)),
                layers_per_block=setting.choose(2, 1),
                down_block_types=down,
                up_block_types=up,
            )
        self.model.train()
        self.average = copy.deepcopy(self.model).requires_grad_(False)
        self.optimizer = adamw([self.model])

    def step(self, iteration: int) -> None:
        pictures = loaded(8, 3, self.side, self.side, kind=torch.float32)
        noise, times = torch.randn_like(pictures), zeros(8)
        with torch.autocast("cuda", BFLOAT16):
            loss = functional.mse_loss(self.model(pictures + noise, times).sample, noise)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        with torch.no_grad():
            followed, following = list(self.model.parameters()), list(self.average.parameters())
            torch._foreach_lerp_(following, followed, 0.001)
