"""Training with Lightning, and a validation with larger batches at the end of the epoch."""

import lightning
import torch
from network import Network, Words, parser
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader

given = parser.parse_args()


class Model(lightning.LightningModule):
    """Network with its training and validation steps."""

    def __init__(self) -> None:
        super().__init__()
        self.network = Network(small=given.small)

    def training_step(self, tokens: Tensor, number: int) -> Tensor:
        """Return the loss."""
        return functional.cross_entropy(self.network(tokens).flatten(0, 1), tokens.flatten())

    def validation_step(self, tokens: Tensor, number: int) -> None:
        """Log the loss."""
        self.log("loss", self.training_step(tokens, number))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return AdamW over all parameters."""
        return torch.optim.AdamW(self.parameters(), lr=1e-4)


model = Model()
batch, larger = given.batch_size, 16 * given.batch_size
lightning.Trainer(
    max_epochs=1,
    devices=1,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
).fit(
    model,
    DataLoader(Words(model.network, given.steps * batch), batch),
    DataLoader(Words(model.network, 2 * larger), larger),
)
