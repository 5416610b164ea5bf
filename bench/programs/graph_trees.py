"""Training of a compiled transformers model at two alternating lengths, with graph trees.

    build/fakecuda/run PYTHON bench/programs/graph_trees.py gpt2

Inductor's kernels need a GPU. So the backend is `cudagraphs`, which captures eager operators into
the same CUDA graph trees as `mode="reduce-overhead"`. Weights are random. The last line of the
output is the card's peak in MiB.
"""

import argparse
import ctypes
import os
from collections.abc import Callable

import torch
from torch import nn
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

WORDS = 8192
LENGTHS = (512, 384)


def gpt2(layers: int, width: int) -> nn.Module:
    config = GPT2Config(
        vocab_size=WORDS,
        n_positions=max(LENGTHS),
        n_embd=width,
        n_layer=layers,
        n_head=width // 64,
        use_cache=False,
    )
    return GPT2LMHeadModel(config)


def bert(layers: int, width: int) -> nn.Module:
    config = BertConfig(
        vocab_size=WORDS,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        intermediate_size=4 * width,
    )
    return BertForMaskedLM(config)


def llama(layers: int, width: int) -> nn.Module:
    config = LlamaConfig(
        vocab_size=WORDS,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        use_cache=False,
    )
    return LlamaForCausalLM(config)


MODELS: dict[str, Callable[[int, int], nn.Module]] = {"gpt2": gpt2, "bert": bert, "llama": llama}


def train(model: nn.Module, steps: int, batch: int, eager: bool) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    compiled = model if eager else torch.compile(model, backend="cudagraphs", dynamic=False)
    for step in range(steps):
        torch.compiler.cudagraph_mark_step_begin()
        length = LENGTHS[step // 2 % len(LENGTHS)]
        words = torch.zeros(batch, length, dtype=torch.long, device="cuda")
        compiled(input_ids=words, labels=words).loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--eager", action="store_true", help="without graphs")
    options = parser.parse_args()
    model = MODELS[options.model](options.layers, options.width).cuda().train()
    train(model, options.steps, options.batch, options.eager)
    stub = ctypes.CDLL(os.environ["PGMO_FAKECUDA"])
    stub.fakecuda_peak.restype = ctypes.c_size_t
    print(stub.fakecuda_peak(0, 0) >> 20)


if __name__ == "__main__":
    main()
