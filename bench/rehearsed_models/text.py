"""Language models of transformers, at real widths and with few layers."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from rehearsed_models import Step, add
from rehearsed_models.training import training

SAMPLES, LENGTH = 4, 256


def _words(words: int, device: str) -> Tensor:
    return torch.randint(3, words, (SAMPLES, LENGTH), device=device)


def _causal(words: int, device: str) -> Callable[[nn.Module], Tensor]:
    def loss(model: Any) -> Tensor:
        text = _words(words, device)
        return model(input_ids=text, labels=text).loss

    return loss


def _masked(words: int, device: str) -> Callable[[nn.Module], Tensor]:
    def loss(model: Any) -> Tensor:
        text = _words(words, device)
        mask = torch.ones_like(text)
        return model(input_ids=text, attention_mask=mask, labels=text).loss

    return loss


def _add(
    name: str,
    kind: str,
    config: str,
    options: dict[str, Any],
    loss: Callable[[int, str], Callable[[nn.Module], Tensor]] = _causal,
    **how: Any,
) -> None:
    def build(device: str) -> Step:
        import transformers

        made = getattr(transformers, config)(**options)
        model = getattr(transformers, kind)(made)
        return training(model, loss(options["vocab_size"], device), device, **how)

    add(name, build)


def _decoder(words: int, width: int, inner: int, heads: int, groups: int) -> dict[str, Any]:
    return {
        "vocab_size": words,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": 3,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
    }


_add(
    "BERT",
    "BertForMaskedLM",
    "BertConfig",
    {
        "vocab_size": 30522,
        "hidden_size": 768,
        "num_hidden_layers": 4,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
    },
    _masked,
)
_add(
    "DistilBERT",
    "DistilBertForMaskedLM",
    "DistilBertConfig",
    {"vocab_size": 30522, "dim": 768, "hidden_dim": 3072, "n_layers": 4, "n_heads": 12},
    _masked,
)
_add(
    "GPT-2",
    "GPT2LMHeadModel",
    "GPT2Config",
    {"vocab_size": 50257, "n_embd": 768, "n_layer": 4, "n_head": 12},
)
_add(
    "Llama, bfloat16",
    "LlamaForCausalLM",
    "LlamaConfig",
    _decoder(32000, 1024, 2816, 16, 16),
    autocast=torch.bfloat16,
)
_add(
    "Mixtral, 8 experts",
    "MixtralForCausalLM",
    "MixtralConfig",
    _decoder(32000, 512, 1792, 8, 4) | {"num_local_experts": 8, "num_experts_per_tok": 2},
)
_add(
    "T5",
    "T5ForConditionalGeneration",
    "T5Config",
    {
        "vocab_size": 32128,
        "d_model": 768,
        "d_kv": 64,
        "d_ff": 3072,
        "num_layers": 3,
        "decoder_start_token_id": 0,
        "num_heads": 12,
    },
)
