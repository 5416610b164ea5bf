"""A Llama in bfloat16 on made-up tokens."""

import torch
from loop import arguments, language_loss, train
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
train(given, LlamaForCausalLM(config).to(torch.bfloat16), language_loss(config.vocab_size, length))
