"""GRPOTrainer of trl, with a phase each for rollouts, scores and updates.

trl's own code generates 128 answers with `generate()` of transformers, scores them with a reference
model, and trains in micro-batches of 8. `generate()` reads from the device whether all answers have
ended. So the program uses the integer values of rehearsals, without which `generate()` never ends
on the stub.
"""

import contextlib
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from datasets import Dataset
from loops import Setting
from loops.llama import llama
from programs.common.texts import tokenizer
from transformers import TrainerCallback

from pgmo.rehearsal.values.mode import Values
from phased.ways import Way

sys.modules["triton"] = None  # type: ignore[assignment]  # its kernels need a driver
from trl import GRPOConfig, GRPOTrainer  # noqa: E402


class PhasedTrainer(GRPOTrainer):
    """Trainer whose steps have three phases.

    Attributes:
        way: how phases are run.
        current: the phase that has begun.
    """

    way: Way
    current: contextlib.ExitStack

    def begin(self, name: str, asleep: list[Any]) -> None:
        """End the current phase and begin another one."""
        self.current.close()
        self.current.enter_context(self.way.phase(name, asleep))

    def _generate(self, prompts: list[Any]) -> Any:
        self.begin("rollout", [self.optimizer, self.ref_model])
        answers = super()._generate(prompts)
        self.begin("scoring", [self.optimizer])
        return answers

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        scored = super()._generate_and_score_completions(inputs)
        self.begin("training", [self.ref_model])
        return scored


class _Iterations(TrainerCallback):
    """Callback that ends the session's iteration after each optimizer step."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def on_step_end(self, *_arguments: Any, **_others: Any) -> None:
        self._session.step()


def rewards(completions: list[str], **_others: object) -> list[float]:
    """Reward an answer for the words that begin with w1."""
    return [float(text.count("w1")) for text in completions]


def run(setting: Setting, way: Way, *, rounds: int, session: Any) -> None:
    """Train for some rounds.

    Args:
        setting: size, and seed of the prompts' lengths.
        way: how phases are run.
        rounds: number of rollouts, each of which ends in one step of the optimizer.
        session: pgmo's session; None without one.
    """
    Values().begin()
    chance = random.Random(setting.seed)
    longest, answers, part, words = setting.choose((960, 128, 8, 32000), (48, 8, 4, 512))
    tokens = tokenizer(words - 6)  # and six special tokens
    tokens.padding_side = "left"
    lengths = [chance.randint(longest // 2, longest) for _ in range(answers)]
    prompts = [" ".join(f"w{at % 100}" for at in range(length)) for length in lengths]
    policy = llama(setting, cache=True)
    with tempfile.TemporaryDirectory() as folder:
        policy.save_pretrained(f"{folder}/reference")
        policy.config._name_or_path = f"{folder}/reference"  # trl reads the reference here
        trainer = PhasedTrainer(
            policy,
            reward_funcs=rewards,
            args=GRPOConfig(
                output_dir=str(Path(folder) / "out"),
                max_steps=rounds,
                per_device_train_batch_size=part,
                gradient_accumulation_steps=answers // part,
                num_generations=4,
                max_completion_length=setting.choose(24, 4),
                beta=0.04,
                bf16=True,
                gradient_checkpointing=False,
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
                optim="adamw_torch_fused",
                dataloader_pin_memory=False,
            ),
            train_dataset=Dataset.from_dict({"prompt": prompts}),
            processing_class=tokens,
            callbacks=[_Iterations(session)] if session else [],
        )
        trainer.way, trainer.current = way, contextlib.ExitStack()
        trainer.train()
        trainer.current.close()
