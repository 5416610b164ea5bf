"""GRPOTrainer of trl: answers are generated, judged, and learned from.

Source: https://huggingface.co/docs/trl/grpo_trainer
"""

from datasets import Dataset
from transformers import LlamaConfig, LlamaForCausalLM
from trl import GRPOConfig, GRPOTrainer

from programs.running import arguments, finish, folder, trainer_losses
from programs.texts import sentences, tokenizer

given = arguments()
words, median, longest = given.choose((500, 16, 48), (50, 6, 12))
tokens = tokenizer(words)
tokens.padding_side = "left"
data = Dataset.from_dict({"prompt": sentences(given.choose(200, 40), words, median, longest)})
config = LlamaConfig(
    vocab_size=len(tokens),
    hidden_size=given.choose(128, 32),
    intermediate_size=given.choose(344, 64),
    num_hidden_layers=given.choose(3, 1),
    num_attention_heads=given.choose(4, 2),
    num_key_value_heads=given.choose(4, 2),
    pad_token_id=tokens.pad_token_id,
    eos_token_id=tokens.eos_token_id,
)


def short_ones(completions: list[str], **_others: object) -> list[float]:
    """The reward: words that begin with w1."""
    return [float(text.count("w1")) for text in completions]


model = LlamaForCausalLM(config)
with folder() as place:
    trainer = GRPOTrainer(
        model,
        reward_funcs=short_ones,
        args=GRPOConfig(
            place,
            per_device_train_batch_size=8,
            num_generations=4,
            max_completion_length=given.choose(12, 4),
            max_steps=given.steps,
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
