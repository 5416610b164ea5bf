"""A transformers Trainer script, with gradient accumulation and evaluation."""

import sys

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from tests.same_bits import bits


class Tokens(Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(1)
        self.tokens = torch.randint(0, 64, (count, 24), generator=generator)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


def main():
    steps, where = int(sys.argv[1]), sys.argv[2]
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=64, n_positions=24, n_embd=32, n_layer=2, n_head=2)
    model = GPT2LMHeadModel(config)
    arguments = TrainingArguments(
        output_dir=where,
        max_steps=steps,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        eval_strategy="steps",
        eval_steps=10,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        seed=0,
    )
    trainer = Trainer(model, arguments, train_dataset=Tokens(400), eval_dataset=Tokens(12))
    trainer.train()
    for entry in trainer.state.log_history:
        if "loss" in entry:
            print(float(entry["loss"]).hex())
    print(bits(model.state_dict().values()))


if __name__ == "__main__":
    main()
