"""A GAN in the manner of StyleGAN2: its regularisers run every few iterations only.

Karras et al., "Analyzing and improving the image quality of StyleGAN" (2020), section 3.1: the
penalty on the discriminator's gradients every 16 iterations, the generator's path length every 4.
Both differentiate twice, and need memory that no other iteration does.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from loops import Setting
from loops.loop import Loop, adamw, loaded

LATENT = 128


def block(inputs: int, outputs: int, scale: float) -> nn.Module:
    """A convolution and its activation, at another resolution."""
    resized = nn.Upsample(scale_factor=scale, mode="bilinear", align_corners=False)
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.LeakyReLU(0.2), resized)


class Generator(nn.Module):
    """From latents (batch, 128) to pictures (batch, 3, side, side)."""

    def __init__(self, width: int, stages: int) -> None:
        super().__init__()
        self.width = width
        self.begin = nn.Linear(LATENT, width * 16)
        self.stages = nn.Sequential(*(block(width, width, 2.0) for _ in range(stages)))
        self.end = nn.Conv2d(width, 3, 1)

    def forward(self, latents: Tensor) -> Tensor:
        """See the class."""
        made: Tensor = self.end(self.stages(self.begin(latents).view(-1, self.width, 4, 4)))
        return made


class Discriminator(nn.Module):
    """From pictures (batch, 3, side, side) to scores (batch, 1)."""

    def __init__(self, width: int, stages: int) -> None:
        super().__init__()
        self.begin = nn.Conv2d(3, width, 1)
        self.stages = nn.Sequential(*(block(width, width, 0.5) for _ in range(stages)))
        self.end = nn.Linear(width * 16, 1)

    def forward(self, pictures: Tensor) -> Tensor:
        """See the class."""
        scores: Tensor = self.end(self.stages(self.begin(pictures)).flatten(1))
        return scores


class LazyGAN(Loop):
    """Both networks and both regularisers, on pictures of 128 by 128."""

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
        """The discriminator's turn, the generator's, and what is due."""
        self.discriminate()
        if iteration % 16 == 15:
            self.penalise_gradients()
        self.generate()
        if iteration % 4 == 3:
            self.regularise_paths()

    def latents(self, batch: int) -> Tensor:
        """Random inputs."""
        return torch.randn(batch, LATENT, device="cuda")

    def pictures(self) -> Tensor:
        """A batch of the data."""
        return loaded(self.batch, 3, self.side, self.side, kind=torch.float32)

    def discriminate(self) -> None:
        """Tells data from what was made."""
        self.of_discriminator.zero_grad(set_to_none=True)
        with torch.no_grad():
            made = self.generator(self.latents(self.batch))
        loss = functional.softplus(self.discriminator(made)).mean()
        loss = loss + functional.softplus(-self.discriminator(self.pictures())).mean()
        loss.backward()
        self.of_discriminator.step()

    def generate(self) -> None:
        """Makes what is taken for data."""
        self.of_generator.zero_grad(set_to_none=True)
        made = self.generator(self.latents(self.batch))
        functional.softplus(-self.discriminator(made)).mean().backward()
        self.of_generator.step()

    def penalise_gradients(self) -> None:
        """R1, of the data."""
        self.of_discriminator.zero_grad(set_to_none=True)
        pictures = self.pictures().requires_grad_()
        scores = self.discriminator(pictures).sum()
        (slope,) = torch.autograd.grad(scores, pictures, create_graph=True)
        slope.square().sum((1, 2, 3)).mean().backward()
        self.of_discriminator.step()

    def regularise_paths(self) -> None:
        """Of half of a batch, as the authors do."""
        self.of_generator.zero_grad(set_to_none=True)
        latents = self.latents(self.batch // 2).requires_grad_()
        made = self.generator(latents)
        noisy = (made * torch.randn_like(made)).sum()
        (path,) = torch.autograd.grad(noisy, latents, create_graph=True)
        path.square().sum(1).sqrt().var().backward()
        self.of_generator.step()


LOOPS = {"gan_lazy": LazyGAN}
