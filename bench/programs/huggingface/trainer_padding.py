"""Trainer of transformers: BERT, padding, two micro-batches, evaluations and checkpoints.

Source: https://huggingface.co/docs/transformers/training
"""

from datasets import Dataset
from transformers import DataCollatorWithPadding, Trainer, TrainingArguments

from programs.common.bert import bert, label
from programs.common.running import arguments, folder
from programs.common.texts import Texts
from programs.common.trainers import encoded, finish_training, settings

given = arguments()
texts = Texts(given)


def classified(count: int, seed: int) -> Dataset:
    """Return a dataset of texts with labels."""
    some = texts.sentences(count, seed)
    return encoded(texts, some, labels=[label(text) for text in some])


model = bert(given, texts.tokens)
with folder() as place:
    trainer = Trainer(
        model,
        TrainingArguments(
            **settings(given, place),
            per_device_train_batch_size=given.choose(8, 2),
            gradient_accumulation_steps=2,
            eval_strategy="steps",
            eval_steps=15,
            save_strategy="steps",
            save_steps=25,
        ),
        train_dataset=classified(given.choose(700, 40), 0),
        eval_dataset=classified(given.choose(64, 6), 1),
        data_collator=DataCollatorWithPadding(texts.tokens),
    )
    trainer.train()
finish_training(given, model, trainer)
