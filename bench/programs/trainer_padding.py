"""Trainer of transformers: BERT, padding, two micro-batches, evaluations and checkpoints.

Source: https://huggingface.co/docs/transformers/training
"""

from datasets import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)

from programs.running import arguments, finish, folder, trainer_losses
from programs.texts import sentences, tokenizer

given = arguments()
words, median, longest = given.choose((1000, 32, 96), (50, 6, 12))
tokens = tokenizer(words)


def classified(count: int, seed: int) -> Dataset:
    """Texts with a label."""
    texts = sentences(count, words, median, longest, seed)
    encoded = tokens(texts)
    labels = [len(text) % 2 for text in texts]
    names = ("input_ids", "attention_mask")
    return Dataset.from_dict({**{name: encoded[name] for name in names}, "labels": labels})


config = BertConfig(
    vocab_size=len(tokens),
    hidden_size=given.choose(128, 32),
    num_hidden_layers=given.choose(3, 1),
    num_attention_heads=given.choose(4, 2),
    intermediate_size=given.choose(512, 64),
)
model = BertForSequenceClassification(config)
with folder() as place:
    trainer = Trainer(
        model,
        TrainingArguments(
            place,
            per_device_train_batch_size=given.choose(8, 2),
            gradient_accumulation_steps=2,
            max_steps=given.steps,
            eval_strategy="steps",
            eval_steps=15,
            save_strategy="steps",
            save_steps=25,
            logging_steps=5,
            report_to=[],
            disable_tqdm=True,
        ),
        train_dataset=classified(given.choose(700, 40), 0),
        eval_dataset=classified(given.choose(64, 6), 1),
        data_collator=DataCollatorWithPadding(tokens),
    )
    trainer.train()
finish(given, model, trainer_losses(trainer.state.log_history))
