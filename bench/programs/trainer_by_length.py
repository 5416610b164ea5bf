"""Trainer of transformers: GPT-2, batches of like lengths, bfloat16, gradient checkpointing.

Source: https://huggingface.co/docs/transformers/trainer
"""

from datasets import Dataset
from transformers import (
    DataCollatorForLanguageModeling,
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainingArguments,
)

from programs.running import arguments, device, finish, folder, trainer_losses
from programs.texts import sentences, tokenizer

given = arguments()
words, median, longest = given.choose((1000, 32, 96), (50, 6, 12))
tokens = tokenizer(words)
encoded = tokens(sentences(given.choose(400, 40), words, median, longest))
data = Dataset.from_dict({name: encoded[name] for name in ("input_ids", "attention_mask")})
config = GPT2Config(
    vocab_size=len(tokens),
    n_positions=256,
    n_embd=given.choose(128, 32),
    n_layer=given.choose(4, 2),
    n_head=given.choose(4, 2),
    bos_token_id=tokens.bos_token_id,
    eos_token_id=tokens.eos_token_id,
)
model = GPT2LMHeadModel(config)
with folder() as place:
    trainer = Trainer(
        model,
        TrainingArguments(
            place,
            per_device_train_batch_size=given.choose(8, 2),
            max_steps=given.steps,
            train_sampling_strategy="group_by_length",
            bf16=True,
            use_cpu=device().type == "cpu",
            gradient_checkpointing=True,
            gradient_checkpointing_kwargs={"use_reentrant": False},
            save_strategy="no",
            logging_steps=5,
            report_to=[],
            disable_tqdm=True,
        ),
        train_dataset=data,
        data_collator=DataCollatorForLanguageModeling(tokens, mlm=False),
    )
    trainer.train()
finish(given, model, trainer_losses(trainer.state.log_history))
