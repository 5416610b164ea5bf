"""Settings and data for the Trainer of transformers and the trainers of trl."""

from typing import Any

from datasets import Dataset
from torch import nn
from transformers import Trainer

from programs.common.running import Arguments, finish
from programs.common.texts import Texts

TRL: dict[str, Any] = {
    "learning_rate": 1e-3,
    "bf16": False,
    "gradient_checkpointing": False,
    "save_strategy": "no",
}
"""Settings for all trainers of trl, whose defaults differ."""


def settings(given: Arguments, place: str) -> dict[str, Any]:
    """Return the folder of checkpoints, the number of steps, and settings for a silent log."""
    return {
        "output_dir": place,
        "max_steps": given.steps,
        "logging_steps": 5,
        "report_to": [],
        "disable_tqdm": True,
    }


def encoded(texts: Texts, sentences: list[str], **columns: list[Any]) -> Dataset:
    """Return a dataset of tokenized texts, with further columns."""
    found = texts.tokens(sentences)
    names = ("input_ids", "attention_mask")
    return Dataset.from_dict({**{name: found[name] for name in names}, **columns})


def finish_training(given: Arguments, model: nn.Module, trainer: Trainer) -> None:
    """Write the losses that the trainer has logged, and a digest of the model."""
    history = trainer.state.log_history
    losses = [row[key] for row in history for key in ("loss", "eval_loss") if key in row]
    finish(given, model, losses)
