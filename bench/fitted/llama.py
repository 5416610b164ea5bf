"""A Llama in bfloat16 on made-up tokens."""

import torch
from loop import arguments, train
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

given = arguments()
if given.small:
    config = LlamaConfig(
        vocab_size=500,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
    )
else:
    config = LlamaConfig(
        vocab_size=32000,
        hidden_size=1280,
        intermediate_size=3456,
        num_hidden_layers=22,
        num_attention_heads=20,
    )
length = 256 if given.small else 1024


def loss(model: nn.Module, batch: int) -> Tensor:
    """Of the next token."""
    tokens = torch.randint(config.vocab_size, (batch, length)).cuda()
    return model(tokens, labels=tokens).loss


train(given, LlamaForCausalLM(config).to(torch.bfloat16), loss)
