"""Speech, and models whose weights are frozen but for adapters."""

from typing import Any

import torch
from torch import Tensor

from rehearsed_models import Step, add
from rehearsed_models.training import training


def _whisper(device: str) -> Step:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        d_model=512,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        encoder_ffn_dim=2048,
        decoder_ffn_dim=2048,
    )

    def loss(model: Any) -> Tensor:
        sound = torch.randn(2, 80, 3000, device=device)
        labels = torch.randint(0, 50000, (2, 128), device=device)
        return model(input_features=sound, labels=labels).loss

    return training(WhisperForConditionalGeneration(config), loss, device)


def _lora(device: str) -> Step:
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    base = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=32000,
            hidden_size=1024,
            intermediate_size=2816,
            num_hidden_layers=4,
            num_attention_heads=16,
        )
    )
    model: Any = get_peft_model(
        base, LoraConfig(r=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    )

    def loss(adapted: Any) -> Tensor:
        text = torch.randint(0, 32000, (4, 256), device=device)
        return adapted(input_ids=text, labels=text).loss

    return training(model, loss, device)


add("Whisper", _whisper)
add("Llama with LoRA", _lora)
