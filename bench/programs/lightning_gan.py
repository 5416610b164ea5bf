"""Lightning's basic GAN: two optimizers in one `training_step`, with manual optimisation.

Source: https://github.com/Lightning-AI/pytorch-lightning/blob/master/examples/pytorch/domain_templates
"""

from typing import Any

import lightning
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from programs.common.running import arguments, finish

given = arguments()
batch, side, noise_size, width = given.choose((64, 28, 100, 256), (4, 8, 8, 16))
losses = []


def block(before: int, after: int) -> list[nn.Module]:
    """Return a layer of the generator."""
    return [nn.Linear(before, after), nn.BatchNorm1d(after), nn.LeakyReLU(0.2, inplace=True)]


class GAN(lightning.LightningModule):
    """Generator and discriminator."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.generator = nn.Sequential(
            *block(noise_size, width),
            *block(width, 2 * width),
            *block(2 * width, 4 * width),
            nn.Linear(4 * width, side * side),
            nn.Tanh(),
            nn.Unflatten(1, (1, side, side)),
        )
        self.discriminator = nn.Sequential(
            nn.Flatten(),
            nn.Linear(side * side, 2 * width),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Linear(2 * width, width),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Linear(width, 1),
        )

    def training_step(self, pictures: list[Tensor]) -> None:
        real = pictures[0]
        optimizer_g, optimizer_d = self.optimizers()
        noise = torch.randn(real.size(0), noise_size).type_as(real)
        ones, zeros = torch.ones(real.size(0), 1), torch.zeros(real.size(0), 1)
        ones, zeros = ones.type_as(real), zeros.type_as(real)
        self.toggle_optimizer(optimizer_g)
        judge = functional.binary_cross_entropy_with_logits
        loss_g = judge(self.discriminator(self.generator(noise)), ones)
        self.manual_backward(loss_g)
        optimizer_g.step()
        optimizer_g.zero_grad()
        self.untoggle_optimizer(optimizer_g)
        self.toggle_optimizer(optimizer_d)
        loss_real = judge(self.discriminator(real), ones)
        loss_fake = judge(self.discriminator(self.generator(noise).detach()), zeros)
        loss_d = (loss_real + loss_fake) / 2
        self.manual_backward(loss_d)
        optimizer_d.step()
        optimizer_d.zero_grad()
        self.untoggle_optimizer(optimizer_d)
        losses.extend([loss_g.item(), loss_d.item()])

    def validation_step(self, pictures: list[Tensor]) -> None:
        """Log the discriminator's mean score of real pictures."""
        self.log("judged", self.discriminator(pictures[0]).mean())

    def configure_optimizers(self) -> tuple[list[Any], list[Any]]:
        adam = {"lr": 2e-4, "betas": (0.5, 0.999)}
        both = self.generator, self.discriminator
        return [torch.optim.Adam(one.parameters(), **adam) for one in both], []


data = TensorDataset(torch.randn(20 * batch, 1, side, side))
model = GAN()
trainer = lightning.Trainer(
    max_steps=2 * given.steps,
    accelerator="auto",
    devices=1,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
held_out = TensorDataset(torch.randn(2 * batch, 1, side, side))
trainer.fit(model, DataLoader(data, batch_size=batch, shuffle=True), DataLoader(held_out, batch))
finish(given, model, losses)
