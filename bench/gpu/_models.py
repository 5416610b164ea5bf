"""Models that `rehearsals.py` rehearses and runs, at real widths and with few layers."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Step = Callable[[], Any]
Batch = dict[str, Tensor]

SAMPLES, LENGTH = 4, 256
CLASSES, SIDE = 1000, 224


def training(
    model: nn.Module,
    loss_of: Callable[[Any], Tensor],
    device: str,
    autocast: torch.dtype | None = None,
) -> Step:
    """Return a training step of a model: forward pass, backward pass, AdamW.

    Args:
        model: a model on the host.
        loss_of: makes a batch on the device, runs the model on it, and returns the loss.
        device: "cuda" or "cpu".
        autocast: type of the forward pass under autocast; None without autocast.
    """
    model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> Any:
        with torch.autocast(device, dtype=autocast, enabled=autocast is not None):
            loss = loss_of(model)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def of_transformers(
    kind: str,
    config: str,
    options: dict[str, Any],
    batch: Callable[[int, str], Batch],
    autocast: torch.dtype | None = None,
) -> Callable[[str], Step]:
    """Return a function that builds the step of a model of transformers on a device."""

    def build(device: str) -> Step:
        import transformers

        made = getattr(transformers, config)(**options)
        model = getattr(transformers, kind)(made)
        words = made.vocab_size
        return training(model, lambda one: one(**batch(words, device)).loss, device, autocast)

    return build


def causal(words: int, device: str) -> Batch:
    """Return random tokens that are also their labels."""
    text = torch.randint(3, words, (SAMPLES, LENGTH), device=device)
    return {"input_ids": text, "labels": text}


def masked(words: int, device: str) -> Batch:
    """Return tokens and labels with an attention mask of ones."""
    batch = causal(words, device)
    return {**batch, "attention_mask": torch.ones_like(batch["input_ids"])}


def sound(words: int, device: str) -> Batch:
    """Return features of two sounds of 30 seconds, and labels."""
    features = torch.randn(2, 80, 3000, device=device)
    return {
        "input_features": features,
        "labels": torch.randint(0, 50000, (2, 128), device=device),
    }


def classifier(make: Callable[[], nn.Module], samples: int) -> Callable[[str], Step]:
    """Return a function that builds the step of an image classifier on a device."""

    def build(device: str) -> Step:
        def loss(model: nn.Module) -> Tensor:
            images = torch.randn(samples, 3, SIDE, SIDE, device=device)
            labels = torch.randint(0, CLASSES, (samples,), device=device)
            return functional.cross_entropy(model(images), labels)

        return training(make(), loss, device)

    return build


def of_timm(name: str, samples: int) -> Callable[[str], Step]:
    """Return a function that builds the step of a timm classifier on a device."""

    def make() -> nn.Module:
        import timm

        return timm.create_model(name, num_classes=CLASSES)

    return classifier(make, samples)


def densenet() -> nn.Module:
    """Build the DenseNet-121 of torchvision."""
    import torchvision

    return torchvision.models.densenet121(num_classes=CLASSES)


GPT2 = {"vocab_size": 50257, "n_embd": 768, "n_layer": 4, "n_head": 12}
LLAMA = {
    "vocab_size": 32000,
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 3,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
}
BERT = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 4,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
}
DISTILBERT = {"vocab_size": 30522, "dim": 768, "hidden_dim": 3072, "n_layers": 4, "n_heads": 12}
WHISPER = {
    "d_model": 512,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 8,
    "decoder_attention_heads": 8,
    "encoder_ffn_dim": 2048,
    "decoder_ffn_dim": 2048,
}

MODELS: dict[str, Callable[[str], Step]] = {
    "GPT-2": of_transformers("GPT2LMHeadModel", "GPT2Config", GPT2, causal),
    "ResNet-50": of_timm("resnet50", 4),
    "Llama, bfloat16": of_transformers(
        "LlamaForCausalLM", "LlamaConfig", LLAMA, causal, torch.bfloat16
    ),
    "ConvNeXt tiny": of_timm("convnext_tiny", 4),
    "BERT": of_transformers("BertForMaskedLM", "BertConfig", BERT, masked),
    "EfficientNet B0": of_timm("efficientnet_b0", 8),
    "Whisper": of_transformers("WhisperForConditionalGeneration", "WhisperConfig", WHISPER, sound),
    "DenseNet-121": classifier(densenet, 4),
    "DistilBERT": of_transformers("DistilBertForMaskedLM", "DistilBertConfig", DISTILBERT, masked),
}
"""Function that builds each model's training step on a device, in the order of measurement."""
