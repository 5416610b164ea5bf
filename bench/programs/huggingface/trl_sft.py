"""SFTTrainer of trl: chats, the loss on answers alone, padding.

Source: https://huggingface.co/docs/trl/sft_trainer
"""

from datasets import Dataset
from trl import SFTConfig, SFTTrainer

from programs.common.llama import llama
from programs.common.running import arguments, folder
from programs.common.texts import Texts
from programs.common.trainers import TRL, finish_training, settings

given = arguments()
texts = Texts(given)
samples = given.choose(400, 40)
questions, answers = (texts.sentences(samples, seed) for seed in (0, 1))
data = Dataset.from_dict({"prompt": questions, "completion": [f" {one} </s>" for one in answers]})
model = llama(given, texts.tokens)
with folder() as place:
    trainer = SFTTrainer(
        model,
        SFTConfig(
            **settings(given, place),
            **TRL,
            per_device_train_batch_size=given.choose(4, 2),
            gradient_accumulation_steps=2,
            max_length=256,
        ),
        train_dataset=data,
        processing_class=texts.tokens,
    )
    trainer.train()
finish_training(given, model, trainer)
