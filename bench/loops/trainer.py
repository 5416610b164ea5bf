"""Trainer of transformers: BERT, padding, two micro-batches per step, and evaluations."""

import tempfile
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments

from loops import Setting
from loops.bert import bert
from loops.loop import Loop


class Texts(Dataset[dict[str, Any]]):
    """Samples of given lengths, in tokens."""

    def __init__(self, lengths: list[int]) -> None:
        self.lengths = lengths

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"length": self.lengths[index]}


def pad(samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """Pad samples to the longest, and return a batch."""
    shape = len(samples), max(sample["length"] for sample in samples)
    tokens, mask = (torch.zeros(shape, dtype=torch.long) for _ in range(2))
    labels = torch.zeros(shape[0], dtype=torch.long)
    return {"input_ids": tokens, "attention_mask": mask, "labels": labels}


class Ends(TrainerCallback):
    """Callback that calls `ended` at the end of each optimizer step."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self.ended = ended

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.ended()


class WithTrainer(Loop):
    """Trainer without pgmo's callback: evaluations are part of the iterations."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        longest = setting.choose(512, 48)
        lengths = [
            min(longest, int(longest / 4 * self.chance.lognormvariate(0.0, 0.6)) + 4)
            for _ in range(4200)
        ]
        self.data, self.others = Texts(lengths[200:]), Texts(lengths[:200])
        self.model = bert(setting, layers=8).to("cuda")

    def run(self, iterations: int, ended: Callable[[], None], *, session: bool = False) -> None:
        callbacks = self.callbacks() if session else []
        with tempfile.TemporaryDirectory() as folder:
            arguments = TrainingArguments(
                folder,
                per_device_train_batch_size=16,
                per_device_eval_batch_size=32,
                max_steps=iterations,
                gradient_accumulation_steps=2,
                eval_strategy="steps",
                eval_steps=max(1, iterations // 3),
                save_strategy="no",
                logging_steps=5,
                bf16=True,
                remove_unused_columns=False,
                report_to=[],
                disable_tqdm=True,
                seed=self.setting.seed,
            )
            trainer = Trainer(
                self.model,
                arguments,
                train_dataset=self.data,
                eval_dataset=self.others,
                data_collator=pad,
                callbacks=[*callbacks, Ends(ended)],
            )
            trainer.train()

    def callbacks(self) -> list[TrainerCallback]:
        return []


class WithCallback(WithTrainer):
    """Trainer with pgmo's callback: it opens the session and excludes evaluations."""

    opens_session = True

    def callbacks(self) -> list[TrainerCallback]:
        from pgmo.integrations.transformers import PgmoTrainerCallback

        made = PgmoTrainerCallback()
        self.session_of = made
        return [made]

    @property
    def session(self) -> Any:
        """Session of the callback; None before it is open."""
        return self.session_of.session if hasattr(self, "session_of") else None
