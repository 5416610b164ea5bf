"""GPT-2 medium on made-up tokens."""

import torch
from loop import arguments, train
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

given = arguments()
sizes = (
    {"n_embd": 64, "n_layer": 2, "n_head": 2}
    if given.small
    else {"n_embd": 1024, "n_layer": 24, "n_head": 16}
)
config = GPT2Config(vocab_size=500 if given.small else 50257, **sizes)
length = 256 if given.small else 512


def loss(model: nn.Module, batch: int) -> Tensor:
    """Return the cross entropy of the next tokens."""
    tokens = torch.randint(config.vocab_size, (batch, length)).cuda()
    return model(tokens, labels=tokens).loss


train(given, GPT2LMHeadModel(config), loss)
