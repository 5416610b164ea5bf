"""Trainer of transformers, with an evaluation after training whose scores stay on the card."""

import tempfile
from typing import Any

import torch
from network import Network, Words, parser
from torch import Tensor, nn
from torch.nn import functional
from transformers import Trainer, TrainingArguments

given = parser.parse_args()
network = Network(small=given.small)


class Model(nn.Module):
    """Network with the outputs that the Trainer expects."""

    def __init__(self) -> None:
        super().__init__()
        self.network = network

    def forward(self, tokens: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return the loss and the scores."""
        scores = self.network(tokens)
        loss = functional.cross_entropy(scores.flatten(0, 1), labels.flatten())
        return {"loss": loss, "logits": scores}


def batch_of(samples: list[Tensor]) -> dict[str, Tensor]:
    """Return a batch whose labels are the words themselves."""
    words = torch.stack(samples)
    return {"tokens": words, "labels": words}


def accuracy(found: Any) -> dict[str, float]:
    """Return the share of correct words."""
    return {"accuracy": float((found.predictions.argmax(-1) == found.label_ids).mean())}


with tempfile.TemporaryDirectory() as folder:
    trainer = Trainer(
        Model(),
        TrainingArguments(
            folder,
            max_steps=given.steps,
            per_device_train_batch_size=given.batch_size,
            per_device_eval_batch_size=16 * given.batch_size,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
        ),
        data_collator=batch_of,
        train_dataset=Words(network, given.steps * given.batch_size),
        eval_dataset=Words(network, 32 * given.batch_size),
        compute_metrics=accuracy,
    )
    trainer.train()
    trainer.evaluate()
