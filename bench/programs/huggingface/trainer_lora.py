"""Trainer of transformers with LoRA of peft: Llama, any lengths.

Source: https://huggingface.co/docs/peft/quicktour
"""

from peft import LoraConfig, TaskType, get_peft_model
from transformers import DataCollatorForLanguageModeling, Trainer, TrainingArguments

from programs.common.llama import llama
from programs.common.running import arguments, folder
from programs.common.texts import Texts
from programs.common.trainers import encoded, finish_training, settings

given = arguments()
texts = Texts(given)
adapters = LoraConfig(
    task_type=TaskType.CAUSAL_LM,
    r=8,
    lora_alpha=32,
    lora_dropout=0.1,
    target_modules=["q_proj", "v_proj"],
)
model = get_peft_model(llama(given, texts.tokens, layers=4), adapters)
with folder() as place:
    trainer = Trainer(
        model,
        TrainingArguments(
            **settings(given, place),
            per_device_train_batch_size=given.choose(8, 2),
            learning_rate=1e-3,
            save_strategy="steps",
            save_steps=25,
        ),
        train_dataset=encoded(texts, texts.sentences(given.choose(400, 40))),
        data_collator=DataCollatorForLanguageModeling(texts.tokens, mlm=False),
    )
    trainer.train()
finish_training(given, model, trainer)
