"""Trainer of transformers with LoRA of peft: Llama, any lengths.

Source: https://huggingface.co/docs/peft/quicktour
"""

from datasets import Dataset
from peft import LoraConfig, TaskType, get_peft_model
from transformers import (
    DataCollatorForLanguageModeling,
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainingArguments,
)

from programs.running import arguments, finish, folder, trainer_losses
from programs.texts import sentences, tokenizer

given = arguments()
words, median, longest = given.choose((1000, 32, 96), (50, 6, 12))
tokens = tokenizer(words)
encoded = tokens(sentences(given.choose(400, 40), words, median, longest))
data = Dataset.from_dict({name: encoded[name] for name in ("input_ids", "attention_mask")})
config = LlamaConfig(
    vocab_size=len(tokens),
    hidden_size=given.choose(128, 32),
    intermediate_size=given.choose(344, 64),
    num_hidden_layers=given.choose(4, 1),
    num_attention_heads=given.choose(4, 2),
    num_key_value_heads=given.choose(4, 2),
    pad_token_id=tokens.pad_token_id,
)
adapters = LoraConfig(
    task_type=TaskType.CAUSAL_LM,
    r=8,
    lora_alpha=32,
    lora_dropout=0.1,
    target_modules=["q_proj", "v_proj"],
)
model = get_peft_model(LlamaForCausalLM(config), adapters)
with folder() as place:
    trainer = Trainer(
        model,
        TrainingArguments(
            place,
            per_device_train_batch_size=given.choose(8, 2),
            max_steps=given.steps,
            learning_rate=1e-3,
            save_strategy="steps",
            save_steps=25,
            logging_steps=5,
            report_to=[],
            disable_tqdm=True,
        ),
        train_dataset=data,
        data_collator=DataCollatorForLanguageModeling(tokens, mlm=False),
    )
    trainer.train()
finish(given, model, trainer_losses(trainer.state.log_history))
