"""A Lightning script, with gradient accumulation and validation."""

import logging
import sys
import warnings

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.same_bits import bits

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 5))

    def training_step(self, batch, _number):
        inputs, labels = batch
        loss = nn.functional.cross_entropy(self.net(inputs), labels)
        print(loss.item().hex())
        return loss

    def validation_step(self, batch, _number):
        inputs, labels = batch
        self.log("val", nn.functional.cross_entropy(self.net(inputs), labels))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main():
    steps, where = int(sys.argv[1]), sys.argv[2]
    lightning.seed_everything(0, verbose=False)
    data = TensorDataset(torch.randn(16 * 20, 32), torch.randint(0, 5, (16 * 20,)))
    model = Classifier()
    trainer = lightning.Trainer(
        max_steps=steps,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        accumulate_grad_batches=2,
        val_check_interval=10,
        default_root_dir=where,
    )
    trainer.fit(model, DataLoader(data, 16, shuffle=True), DataLoader(data, 20))
    print(bits(model.state_dict().values()))


if __name__ == "__main__":
    main()
