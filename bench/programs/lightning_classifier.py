"""Lightning: an image classifier, two micro-batches, validation within the epoch, checkpoints.

Source: https://lightning.ai/docs/pytorch/stable/starter/introduction.html
"""

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from programs.common.running import arguments, finish, folder

given = arguments()
batch, width, side = given.choose((16, 24, 32), (2, 4, 8))
losses = []


class Residual(nn.Module):
    """Two convolutions and a shortcut around them."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(after) for _ in range(2))
        self.beside = nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return features; a stride of 2 halves their resolution."""
        inner = functional.relu(self.norms[0](self.first(x)))
        return functional.relu(self.norms[1](self.second(inner)) + self.beside(x))


class Classifier(lightning.LightningModule):
    """A small ResNet."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Conv2d(3, width, 3, 1, 1, bias=False),
            Residual(width, width, 1),
            Residual(width, 2 * width, 2),
            Residual(2 * width, 4 * width, 2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(4 * width, 10),
        )

    def training_step(self, samples: list[Tensor], number: int) -> Tensor:
        loss = functional.cross_entropy(self.network(samples[0]), samples[1])
        self.log("train_loss", loss)
        losses.append(loss.item())
        return loss

    def validation_step(self, samples: list[Tensor], number: int) -> None:
        self.log("val_loss", functional.cross_entropy(self.network(samples[0]), samples[1]))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)


def pictures(count: int) -> TensorDataset:
    """Return random pictures and labels."""
    return TensorDataset(torch.randn(count, 3, side, side), torch.randint(10, (count,)))


model = Classifier()
with folder() as place:
    trainer = lightning.Trainer(
        max_steps=given.steps,
        accumulate_grad_batches=2,
        val_check_interval=0.5,
        gradient_clip_val=1.0,
        accelerator="auto",
        devices=1,
        logger=False,
        callbacks=[ModelCheckpoint(place, every_n_train_steps=25)],
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loaders = DataLoader(pictures(24 * batch), batch, shuffle=True), DataLoader(pictures(64), batch)
    trainer.fit(model, *loaders)
finish(given, model, losses)
