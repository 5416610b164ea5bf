"""DPOTrainer of trl: chosen and rejected answers, LoRA of peft, a reference without it.

Source: https://huggingface.co/docs/trl/dpo_trainer
"""

from datasets import Dataset
from peft import LoraConfig
from transformers import LlamaConfig, LlamaForCausalLM
from trl import DPOConfig, DPOTrainer

from programs.running import arguments, finish, folder, trainer_losses
from programs.texts import sentences, tokenizer

given = arguments()
words, median, longest = given.choose((1000, 24, 64), (50, 6, 12))
tokens = tokenizer(words)
samples = given.choose(200, 40)
texts = [sentences(samples, words, median, longest, seed) for seed in range(3)]
data = Dataset.from_dict(dict(zip(("prompt", "chosen", "rejected"), texts, strict=True)))
config = LlamaConfig(
    vocab_size=len(tokens),
    hidden_size=given.choose(128, 32),
    intermediate_size=given.choose(344, 64),
    num_hidden_layers=given.choose(3, 1),
    num_attention_heads=given.choose(4, 2),
    num_key_value_heads=given.choose(4, 2),
    pad_token_id=tokens.pad_token_id,
)
model = LlamaForCausalLM(config)
with folder() as place:
    trainer = DPOTrainer(
        model,
        args=DPOConfig(
            place,
            per_device_train_batch_size=given.choose(4, 2),
            max_steps=given.steps,
            max_length=256,
            learning_rate=1e-3,
            bf16=False,
            gradient_checkpointing=False,
            save_strategy="no",
            logging_steps=5,
            report_to=[],
            disable_tqdm=True,
        ),
        train_dataset=data,
        processing_class=tokens,
        peft_config=LoraConfig(r=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"),
    )
    trainer.train()
finish(given, trainer.model, trainer_losses(trainer.state.log_history))
