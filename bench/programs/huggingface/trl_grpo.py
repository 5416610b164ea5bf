"""GRPOTrainer of trl, which generates answers, scores them, and trains on them.

Source: https://huggingface.co/docs/trl/grpo_trainer
"""

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from programs.common.llama import llama
from programs.common.running import arguments, folder
from programs.common.texts import Texts
from programs.common.trainers import TRL, finish_training, settings

given = arguments()
texts = Texts(given, 500, 16, 48)
texts.tokens.padding_side = "left"
data = Dataset.from_dict({"prompt": texts.sentences(given.choose(200, 40))})


def short_ones(completions: list[str], **_others: object) -> list[float]:
    """Reward an answer for the words that begin with w1."""
    return [float(text.count("w1")) for text in completions]


model = llama(given, texts.tokens, ends=True)
with folder() as place:
    trainer = GRPOTrainer(
        model,
        reward_funcs=short_ones,
        args=GRPOConfig(
            **settings(given, place),
            **TRL,
            per_device_train_batch_size=8,
            num_generations=4,
            max_completion_length=given.choose(12, 4),
        ),
        train_dataset=data,
        processing_class=texts.tokens,
    )
    trainer.train()
finish_training(given, model, trainer)
