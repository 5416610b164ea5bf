"""Training steps that `rehearsals.py` rehearses and runs, at real widths and with few layers."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Step = Callable[[], None]

SAMPLES, LENGTH = 4, 256
CLASSES, SIDE = 1000, 224


def training(
    model: nn.Module, loss_of: Callable[[Any], Tensor], autocast: torch.dtype | None = None
) -> Step:
    """Return a training step of a model: forward pass, backward pass, AdamW.

    Args:
        model: a model on the host.
        loss_of: makes a batch on the device, runs the model on it, and returns the loss.
        autocast: type of the forward pass under autocast; None without autocast.
    """
    model.to("cuda").train()
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        with torch.autocast("cuda", dtype=autocast, enabled=autocast is not None):
            loss = loss_of(model)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def causal(words: int) -> dict[str, Tensor]:
    """Return random tokens that are also their labels."""
    text = torch.randint(3, words, (SAMPLES, LENGTH), device="cuda")
    return {"input_ids": text, "labels": text}


def masked(words: int) -> dict[str, Tensor]:
    """Return tokens and labels with an attention mask of ones."""
    batch = causal(words)
    return {**batch, "attention_mask": torch.ones_like(batch["input_ids"])}


def sound(words: int) -> dict[str, Tensor]:
    """Return features of two sounds of 30 seconds, and labels."""
    features = torch.randn(2, 80, 3000, device="cuda")
    labels = torch.randint(0, 50000, (2, 128), device="cuda")
    return {"input_features": features, "labels": labels}


def of_transformers(
    kind: str,
    config: str,
    options: dict[str, Any],
    batch: Callable[[int], dict[str, Tensor]],
    autocast: torch.dtype | None = None,
) -> Step:
    """Build the step of a model of transformers with the options of its configuration."""
    import transformers

    made = getattr(transformers, config)(**options)
    model = getattr(transformers, kind)(made)
    return training(model, lambda one: one(**batch(made.vocab_size)).loss, autocast)


def classifier(model: nn.Module, samples: int) -> Step:
    """Return the step of an image classifier."""

    def loss(model: nn.Module) -> Tensor:
        images = torch.randn(samples, 3, SIDE, SIDE, device="cuda")
        labels = torch.randint(0, CLASSES, (samples,), device="cuda")
        return functional.cross_entropy(model(images), labels)

    return training(model, loss)


def of_timm(name: str, samples: int) -> Step:
    """Build the step of a classifier of timm."""
    import timm

    return classifier(timm.create_model(name, num_classes=CLASSES), samples)


def densenet() -> Step:
    """Build the step of the DenseNet-121 of torchvision."""
    import torchvision

    return classifier(torchvision.models.densenet121(num_classes=CLASSES), 4)


GPT2 = {"vocab_size": 50257, "n_embd": 768, "n_layer": 4, "n_head": 12}
SMALL = {"hidden_size": 768, "num_hidden_layers": 4, "num_attention_heads": 12}
BERT = {**SMALL, "vocab_size": 30522, "intermediate_size": 3072}
WIDE = {"hidden_size": 1024, "num_hidden_layers": 3, "num_attention_heads": 16}
LLAMA = {**WIDE, "vocab_size": 32000, "intermediate_size": 2816, "num_key_value_heads": 16}
DISTILBERT = {"vocab_size": 30522, "dim": 768, "hidden_dim": 3072, "n_layers": 4, "n_heads": 12}
SIDE_OF_WHISPER = {"layers": 2, "attention_heads": 8, "ffn_dim": 2048}
WHISPER = {
    f"{side}_{name}": value
    for side in ("encoder", "decoder")
    for name, value in SIDE_OF_WHISPER.items()
} | {"d_model": 512}

FAMILIES: dict[str, tuple[Any, ...]] = {
    "GPT-2": ("GPT2LMHeadModel", "GPT2Config", GPT2, causal),
    "Llama, bfloat16": ("LlamaForCausalLM", "LlamaConfig", LLAMA, causal, torch.bfloat16),
    "BERT": ("BertForMaskedLM", "BertConfig", BERT, masked),
    "Whisper": ("WhisperForConditionalGeneration", "WhisperConfig", WHISPER, sound),
    "DistilBERT": ("DistilBertForMaskedLM", "DistilBertConfig", DISTILBERT, masked),
}
"""Arguments of `of_transformers` for each of its models."""

MODELS: dict[str, Callable[[], Step]] = {
    **{name: partial(of_transformers, *given) for name, given in FAMILIES.items()},
    "ResNet-50": partial(of_timm, "resnet50", 4),
    "ConvNeXt tiny": partial(of_timm, "convnext_tiny", 4),
    "EfficientNet B0": partial(of_timm, "efficientnet_b0", 8),
    "DenseNet-121": densenet,
}
"""Function that builds each model's training step."""
