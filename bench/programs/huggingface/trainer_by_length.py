"""Trainer of transformers: GPT-2, batches of similar lengths, bfloat16, gradient checkpointing.

Source: https://huggingface.co/docs/transformers/trainer
"""

from transformers import (
    DataCollatorForLanguageModeling,
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainingArguments,
)

from programs.common.running import arguments, device, folder
from programs.common.texts import Texts
from programs.common.trainers import encoded, finish_training, settings

given = arguments()
texts = Texts(given)
config = GPT2Config(
    vocab_size=len(texts.tokens),
    n_positions=256,
    n_embd=given.choose(128, 32),
    n_layer=given.choose(4, 2),
    n_head=given.choose(4, 2),
    bos_token_id=texts.tokens.bos_token_id,
    eos_token_id=texts.tokens.eos_token_id,
)
model = GPT2LMHeadModel(config)
with folder() as place:
    trainer = Trainer(
        model,
        TrainingArguments(
            **settings(given, place),
            per_device_train_batch_size=given.choose(8, 2),
            train_sampling_strategy="group_by_length",
            bf16=True,
            use_cpu=device().type == "cpu",
            gradient_checkpointing=True,
            gradient_checkpointing_kwargs={"use_reentrant": False},
            save_strategy="no",
        ),
        train_dataset=encoded(texts, texts.sentences(given.choose(400, 40))),
        data_collator=DataCollatorForLanguageModeling(texts.tokens, mlm=False),
    )
    trainer.train()
finish_training(given, model, trainer)
