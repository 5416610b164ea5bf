"""Inference of a Llama of 1.1 billion parameters with a static cache of keys and values.

All requests are answered at once: `generate()` of transformers reads prompts that are 4 tokens
shorter than the cache, and generates 4 tokens.
"""

import argparse

import torch
from transformers import LlamaConfig, LlamaForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--requests", type=int, default=8)
parser.add_argument("--length", type=int, default=1024)
parser.add_argument("--small", action="store_true")
given = parser.parse_args()
width, inner, layers, heads = (256, 704, 2, 4) if given.small else (2048, 5632, 22, 32)
config = LlamaConfig(
    vocab_size=32000,
    hidden_size=width,
    intermediate_size=inner,
    num_hidden_layers=layers,
    num_attention_heads=heads,
    num_key_value_heads=4,
    max_position_embeddings=1 << 20,
    eos_token_id=None,
)
torch.set_default_dtype(torch.bfloat16)
with torch.device("cuda"):
    model = LlamaForCausalLM(config).eval()
    prompts = torch.randint(32000, (given.requests, given.length - 4))
model.generate(
    prompts,
    attention_mask=torch.ones_like(prompts),
    max_new_tokens=4,
    do_sample=False,
    cache_implementation="static",
    disable_compile=True,
)
print(f"answered {given.requests} requests")
