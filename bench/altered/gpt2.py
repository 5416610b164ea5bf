"""GPT-2 small on made-up tokens."""

import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel
from ways import arguments, train

given = arguments(8)
sizes = {"n_embd": 64, "n_layer": 2, "n_head": 2} if given.small else {}
config = GPT2Config(vocab_size=500 if given.small else 50257, **sizes)
length = 64 if given.small else 512


def loss(model: nn.Module) -> Tensor:
    """Return the cross entropy of the next tokens."""
    tokens = torch.randint(config.vocab_size, (given.batch_size, length)).cuda()
    return model(input_ids=tokens, labels=tokens).loss


model = GPT2LMHeadModel(config)
train(given, model, loss, model.transformer.h, model.gradient_checkpointing_enable)
