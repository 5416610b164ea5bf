"""Models of transformers with many layers that are alike, small and with random weights."""

from typing import Any

import torch
from torch import nn

NAMES = ("Llama", "GPT-2", "BERT", "ViT")


def create(name: str, layers: int) -> tuple[nn.Module, dict[str, Any]]:
    """A model in training mode, and a batch of eight samples.

    Raises:
        ImportError: transformers is not installed.
    """
    import transformers as library

    torch.manual_seed(0)
    words = torch.randint(0, 1000, (8, 128))
    text = {"input_ids": words, "labels": words}
    wide: dict[str, Any] = {
        "hidden_size": 128,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
    }
    if name == "ViT":
        config = library.ViTConfig(**wide, intermediate_size=512, image_size=32, patch_size=4)
        batch = {"pixel_values": torch.randn(8, 3, 32, 32), "labels": torch.randint(0, 2, (8,))}
        return library.ViTForImageClassification(config).train(), batch
    wide["vocab_size"] = 1000
    if name == "BERT":
        return library.BertForMaskedLM(library.BertConfig(**wide, intermediate_size=512)), text
    if name == "GPT-2":
        gpt = library.GPT2Config(
            n_embd=128, n_layer=layers, n_head=4, vocab_size=1000, use_cache=False
        )
        return library.GPT2LMHeadModel(gpt), text
    config = library.LlamaConfig(
        **wide, intermediate_size=344, num_key_value_heads=4, use_cache=False
    )
    return library.LlamaForCausalLM(config), text
