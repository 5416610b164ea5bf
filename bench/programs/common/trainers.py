"""What is the same for the Trainer of transformers and those of trl."""

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
"""Settings for all trainers of trl, which would choose others by themselves."""


def settings(given: Arguments, place: str) -> dict[str, Any]:
    """Where checkpoints go, how many steps there are, and a log that nobody is told of."""
    return {
        "output_dir": place,
        "max_steps": given.steps,
        "logging_steps": 5,
        "report_to": [],
        "disable_tqdm": True,
    }


def encoded(texts: Texts, sentences: list[str], **columns: list[Any]) -> Dataset:
    """Tokens of texts, with further columns."""
    found = texts.tokens(sentences)
    names = ("input_ids", "attention_mask")
    return Dataset.from_dict({**{name: found[name] for name in names}, **columns})


def finish_training(given: Arguments, model: nn.Module, trainer: Trainer) -> None:
    """Writes the losses that the trainer has logged, and what became of the model."""
    history = trainer.state.log_history
    losses = [row[key] for row in history for key in ("loss", "eval_loss") if key in row]
    finish(given, model, losses)
