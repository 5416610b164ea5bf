"""A GAN like StyleGAN2, whose regularisers run only every few iterations.

The penalty on the discriminator's gradients runs every 16 iterations, and the generator's path
length every 4 (Karras et al., "Analyzing and improving the image quality of StyleGAN", 2020,
section 3.1). Both differentiate twice, and need memory that other iterations do not.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from loops import Setting
from loops.loop import Loop, adamw, loaded

LATENT = 128


def block(inputs: int, outputs: int, scale: float) -> nn.Module:
    """Return a convolution with its activation, and a change of resolution by `scale`."""
    resized = nn.Upsample(scale_factor=scale, mode="bilinear", align_corners=False)
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.LeakyReLU(0.2), resized)


class Generator(nn.Module):
    """Network from latents, shape (batch, 128), to pictures, shape (batch, 3, side, side)."""

    def __init__(self, width: int, stages: int) -> None:
        super().__init__()
        self.width = width
        self.begin = nn.Linear(LATENT, width * 16)
        self.stages = nn.Sequential(*(block(width, width, 2.0) for _ in range(stages)))
        self.end = nn.Conv2d(width, 3, 1)

    def forward(self, latents: Tensor) -> Tensor:
        made: Tensor = self.end(self.stages(self.begin(latents).view(-1, self.width, 4, 4)))
        return made


class Discriminator(nn.Module):
    """Network from pictures, shape (batch, 3, side, side), to scores, shape (batch, 1)."""

    def __init__(self, width: int, stages: int) -> None:
        super().__init__()
        self.begin = nn.Conv2d(3, width, 1)
        self.stages = nn.Sequential(*(block(width, width, 0.5) for _ in range(stages)))
        self.end = nn.Linear(width * 16, 1)

    def forward(self, pictures: Tensor) -> Tensor:
        scores: Tensor = self.end(self.stages(self.begin(pictures)).flatten(1))
        return scores


class LazyGAN(Loop):
    """Training of both networks with both regularisers, on pictures of 128 by 128 pixels."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        width, stages = setting.choose((128, 5), (16, 2))
        self.batch, self.side = setting.choose(16, 4), 4 << stages
        with torch.device("cuda"):
            self.generator = Generator(width, stages)
            self.discriminator = Discriminator(width, stages)
        self.of_generator = adamw([self.generator])
        self.of_discriminator = adamw([self.discriminator])

    def step(self, iteration: int) -> None:
        self.discriminate()
        if iteration % 16 == 15:
            self.penalise_gradients()
        self.generate()
        if iteration % 4 == 3:
            self.regularise_paths()

    def latents(self, batch: int) -> Tensor:
        """Return random inputs, shape (batch, 128)."""
        return torch.randn(batch, LATENT, device="cuda")

    def pictures(self) -> Tensor:
        return loaded(self.batch, 3, self.side, self.side, kind=torch.float32)

    def discriminate(self) -> None:
        """Train the discriminator to distinguish data from generated pictures."""
        self.of_discriminator.zero_grad(set_to_none=True)
        with torch.no_grad():
            made = self.generator(self.latents(self.batch))
        loss = functional.softplus(self.discriminator(made)).mean()
        loss = loss + functional.softplus(-self.discriminator(self.pictures())).mean()
        loss.backward()
        self.of_discriminator.step()

    def generate(self) -> None:
        """Train the generator to deceive the discriminator."""
        self.of_generator.zero_grad(set_to_none=True)
        made = self.generator(self.latents(self.batch))
        functional.softplus(-self.discriminator(made)).mean().backward()
        self.of_generator.step()

    def penalise_gradients(self) -> None:
        """Penalise the discriminator's gradients with respect to the data (R1)."""
        self.of_discriminator.zero_grad(set_to_none=True)
        pictures = self.pictures().requires_grad_()
        scores = self.discriminator(pictures).sum()
        (slope,) = torch.autograd.grad(scores, pictures, create_graph=True)
        slope.square().sum((1, 2, 3)).mean().backward()
        self.of_discriminator.step()

    def regularise_paths(self) -> None:
        """Regularise the generator's path lengths on half of a batch, as the authors do."""
        self.of_generator.zero_grad(set_to_none=True)
        latents = self.latents(self.batch // 2).requires_grad_()
        made = self.generator(latents)
        noisy = (made * torch.randn_like(made)).sum()
        (path,) = torch.autograd.grad(noisy, latents, create_graph=True)
        path.square().sum(1).sqrt().var().backward()
        self.of_generator.step()
