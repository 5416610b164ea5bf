"""Models of transformers for text, speech and images."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from workloads.zoo.model import Batch, transformer

WORDS, LENGTH = 512, 64
_SIZES: dict[str, Any] = {
    "vocab_size": WORDS,
    "hidden_size": 64,
    "intermediate_size": 176,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
}
_GROUPED = _SIZES | {"num_key_value_heads": 2}
_BART: dict[str, Any] = {
    "vocab_size": WORDS,
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_ffn_dim": 256,
    "decoder_ffn_dim": 256,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
}


def words(samples: int, length: int = LENGTH) -> Tensor:
    """Return random tokens, shape (samples, length), without the three special tokens."""
    return torch.randint(3, WORDS, (samples, length))


def text(samples: int) -> Batch:
    """Return tokens that are also their labels."""
    found = words(samples)
    return {"input_ids": found, "labels": found}


def padded(samples: int) -> Batch:
    """Return tokens, labels, and a mask in which one text is shorter."""
    found = words(samples)
    mask = torch.ones_like(found)
    mask[1:2, LENGTH // 2 :] = 0
    return {"input_ids": found, "labels": found, "attention_mask": mask}


def _language_model(
    name: str,
    kind: str,
    config: str,
    options: dict[str, Any],
    batch: Callable[[int], Batch] = text,
) -> None:
    def build() -> tuple[nn.Module, Callable[[int], Batch]]:
        import transformers

        return getattr(transformers, kind)(getattr(transformers, config)(**options)), batch

    transformer(name, build)


_language_model("Llama", "LlamaForCausalLM", "LlamaConfig", _GROUPED)
_language_model("Llama, padded", "LlamaForCausalLM", "LlamaConfig", _GROUPED, padded)
_language_model("Mistral", "MistralForCausalLM", "MistralConfig", _GROUPED | {"sliding_window": 32})
_language_model("Qwen3", "Qwen3ForCausalLM", "Qwen3Config", _GROUPED | {"head_dim": 16})
_language_model("Gemma 2", "Gemma2ForCausalLM", "Gemma2Config", _GROUPED | {"head_dim": 16})
_language_model(
    "Mixtral", "MixtralForCausalLM", "MixtralConfig", _GROUPED | {"num_local_experts": 4}
)
_language_model(
    "GPT-2",
    "GPT2LMHeadModel",
    "GPT2Config",
    {"vocab_size": WORDS, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": LENGTH},
)
_language_model(
    "OPT",
    "OPTForCausalLM",
    "OPTConfig",
    {
        "vocab_size": WORDS,
        "hidden_size": 64,
        "word_embed_proj_dim": 64,
        "ffn_dim": 256,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
    },
)
_language_model("BERT", "BertForMaskedLM", "BertConfig", _SIZES, padded)
_language_model("RoBERTa", "RobertaForMaskedLM", "RobertaConfig", _SIZES)
_language_model(
    "DistilBERT",
    "DistilBertForMaskedLM",
    "DistilBertConfig",
    {"vocab_size": WORDS, "dim": 64, "hidden_dim": 256, "n_layers": 3, "n_heads": 4},
)
_language_model(
    "T5",
    "T5ForConditionalGeneration",
    "T5Config",
    {
        "vocab_size": WORDS,
        "d_model": 64,
        "d_kv": 16,
        "d_ff": 256,
        "num_layers": 2,
        "num_heads": 4,
        "decoder_start_token_id": 0,
    },
)
_language_model("BART", "BartForConditionalGeneration", "BartConfig", _BART, padded)


def _whisper() -> tuple[nn.Module, Callable[[int], Batch]]:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    lengths = {"num_mel_bins": 16, "max_source_positions": 64, "max_target_positions": 64}
    none = {"suppress_tokens": None, "begin_suppress_tokens": None}
    config = WhisperConfig(**_BART, **special, **lengths, **none)

    def batch(samples: int) -> Batch:
        return {"input_features": torch.randn(samples, 16, 128), "labels": words(samples, 32)}

    return WhisperForConditionalGeneration(config), batch


def _vit() -> tuple[nn.Module, Callable[[int], Batch]]:
    from transformers import ViTConfig, ViTForImageClassification

    sizes = _SIZES | {"image_size": 64, "patch_size": 8, "num_labels": 10}
    del sizes["vocab_size"]

    def batch(samples: int) -> Batch:
        images = torch.randn(samples, 3, 64, 64)
        return {"pixel_values": images, "labels": torch.randint(10, (samples,))}

    return ViTForImageClassification(ViTConfig(**sizes)), batch


def _clip() -> tuple[nn.Module, Callable[[int], Batch]]:
    from transformers import CLIPConfig, CLIPModel

    special = {"eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0}
    text_sizes = _SIZES | special | {"max_position_embeddings": 32}
    image_sizes = _SIZES | {"image_size": 64, "patch_size": 16}
    config = CLIPConfig(text_config=text_sizes, vision_config=image_sizes, projection_dim=32)

    def batch(samples: int) -> Batch:
        found = words(samples, 24)
        images = torch.randn(samples, 3, 64, 64)
        return {
            "pixel_values": images,
            "input_ids": found,
            "attention_mask": torch.ones_like(found),
            "return_loss": True,
        }

    return CLIPModel(config), batch


def _segformer() -> tuple[nn.Module, Callable[[int], Batch]]:
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    config = SegformerConfig(
        hidden_sizes=[16, 32, 64, 64], depths=[1, 1, 1, 1], num_labels=5, decoder_hidden_size=32
    )

    def batch(samples: int) -> Batch:
        images = torch.randn(samples, 3, 64, 64)
        return {"pixel_values": images, "labels": torch.randint(5, (samples, 64, 64))}

    return SegformerForSemanticSegmentation(config), batch


for _name, _build in (
    ("Whisper", _whisper),
    ("ViT", _vit),
    ("CLIP", _clip),
    ("SegFormer", _segformer),
):
    transformer(_name, _build)
