"""Models of transformers for text, speech and images."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from workloads.zoo.model import Batch, Made, add

WORDS, LENGTH = 512, 64
SIZES: dict[str, Any] = {
    "vocab_size": WORDS,
    "hidden_size": 64,
    "intermediate_size": 176,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
}
GROUPED = SIZES | {"num_key_value_heads": 2}
GPT2 = {"vocab_size": WORDS, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": LENGTH}
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


def transformer(
    name: str,
    kind: str,
    options: dict[str, Any],
    batch: Callable[[int], Batch] = text,
    checkpointed: bool = False,
) -> None:
    """Add the class `kind` of transformers to the zoo, with a configuration of `options`."""

    def build() -> Made:
        import transformers

        made: Any = getattr(transformers, kind)
        model = made(made.config_class(**options))

        def checkpoint() -> None:
            how = {"use_reentrant": False}
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=how)

        if checkpointed:
            checkpoint()
        return Made(model, batch, 8, checkpoint)

    add(name, "transformers", build)


transformer("Llama", "LlamaForCausalLM", GROUPED)
transformer("Llama, padded", "LlamaForCausalLM", GROUPED, padded)
transformer("Mistral", "MistralForCausalLM", GROUPED | {"sliding_window": 32})
transformer("Qwen3", "Qwen3ForCausalLM", GROUPED | {"head_dim": 16})
transformer("Gemma 2", "Gemma2ForCausalLM", GROUPED | {"head_dim": 16})
transformer("Mixtral", "MixtralForCausalLM", GROUPED | {"num_local_experts": 4})
transformer("GPT-2", "GPT2LMHeadModel", GPT2)
_OPT = {key: SIZES[key] for key in SIZES if key != "intermediate_size"}
transformer("OPT", "OPTForCausalLM", _OPT | {"word_embed_proj_dim": 64, "ffn_dim": 256})
transformer("BERT", "BertForMaskedLM", SIZES, padded)
transformer("RoBERTa", "RobertaForMaskedLM", SIZES)
_DISTILBERT = {"vocab_size": WORDS, "dim": 64, "hidden_dim": 256, "n_layers": 3, "n_heads": 4}
transformer("DistilBERT", "DistilBertForMaskedLM", _DISTILBERT)
_T5 = {"vocab_size": WORDS, "d_model": 64, "d_kv": 16, "d_ff": 256, "num_layers": 2}
_T5 |= {"num_heads": 4, "decoder_start_token_id": 0}
transformer("T5", "T5ForConditionalGeneration", _T5)
transformer("BART", "BartForConditionalGeneration", _BART, padded)


def _speech(samples: int) -> Batch:
    return {"input_features": torch.randn(samples, 16, 128), "labels": words(samples, 32)}


_WHISPER = _BART | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_WHISPER |= {"decoder_start_token_id": 1, "suppress_tokens": None, "begin_suppress_tokens": None}
_WHISPER |= {"num_mel_bins": 16, "max_source_positions": 64, "max_target_positions": 64}
transformer("Whisper", "WhisperForConditionalGeneration", _WHISPER, _speech)


def _labelled(samples: int) -> Batch:
    images = torch.randn(samples, 3, 64, 64)
    return {"pixel_values": images, "labels": torch.randint(10, (samples,))}


_VIT = {key: SIZES[key] for key in SIZES if key != "vocab_size"}
_VIT |= {"image_size": 64, "patch_size": 8, "num_labels": 10}
transformer("ViT", "ViTForImageClassification", _VIT, _labelled)


def _described(samples: int) -> Batch:
    found = words(samples, 24)
    return {
        "pixel_values": torch.randn(samples, 3, 64, 64),
        "input_ids": found,
        "attention_mask": torch.ones_like(found),
        "return_loss": True,
    }


_SPECIAL = {"eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0}
_CLIP = {
    "text_config": SIZES | _SPECIAL | {"max_position_embeddings": 32},
    "vision_config": SIZES | {"image_size": 64, "patch_size": 16},
    "projection_dim": 32,
}
transformer("CLIP", "CLIPModel", _CLIP, _described)


def _segmented(samples: int) -> Batch:
    images = torch.randn(samples, 3, 64, 64)
    return {"pixel_values": images, "labels": torch.randint(5, (samples, 64, 64))}


_SEGFORMER = {"hidden_sizes": [16, 32, 64, 64], "depths": [1, 1, 1, 1], "num_labels": 5}
_SEGFORMER |= {"decoder_hidden_size": 32}
transformer("SegFormer", "SegformerForSemanticSegmentation", _SEGFORMER, _segmented)
