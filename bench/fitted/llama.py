"""A Llama in bfloat16 on made-up tokens."""

import torch
from loop import arguments, train
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

given = arguments()
words, width, inner, layers, heads = (
    (500, 64, 128, 2, 2) if given.small else (32000, 1280, 3456, 22, 20)
)
config = LlamaConfig(
    vocab_size=words,
    hidden_size=width,
    intermediate_size=inner,
    num_hidden_layers=layers,
    num_attention_heads=heads,
)
length = 256 if given.small else 1024


def loss(model: nn.Module, batch: int) -> Tensor:
    """Return the cross entropy of the next tokens."""
    tokens = torch.randint(config.vocab_size, (batch, length)).cuda()
    return model(tokens, labels=tokens).loss


train(given, LlamaForCausalLM(config).to(torch.bfloat16), loss)
