"""SFTTrainer of trl: chats, the loss on answers alone, padding.

Source: https://huggingface.co/docs/trl/sft_trainer
"""

from datasets import Dataset
from transformers import LlamaConfig, LlamaForCausalLM
from trl import SFTConfig, SFTTrainer

from programs.running import arguments, finish, folder, trainer_losses
from programs.texts import sentences, tokenizer

given = arguments()
words, median, longest = given.choose((1000, 32, 96), (50, 6, 12))
tokens = tokenizer(words)
samples = given.choose(400, 40)
questions, answers = (sentences(samples, words, median, longest, seed) for seed in (0, 1))
data = Dataset.from_dict({"prompt": questions, "completion": [f" {one} </s>" for one in answers]})
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
    trainer = SFTTrainer(
        model,
        SFTConfig(
            place,
            per_device_train_batch_size=given.choose(4, 2),
            gradient_accumulation_steps=2,
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
    )
    trainer.train()
finish(given, model, trainer_losses(trainer.state.log_history))
