"""Models of other families: no rule of an estimate was written while looking at these."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from estimated import Step, add_unseen
from estimated.training import training

SAMPLES, LENGTH = 4, 256


def _text(name: str, kind: str, config: str, words: int, **options: Any) -> None:
    """A language model of transformers."""

    def build(device: str) -> Step:
        import transformers

        made = getattr(transformers, config)(vocab_size=words, **options)
        model = getattr(transformers, kind)(made)

        def loss(given: Any) -> Tensor:
            text = torch.randint(3, words, (SAMPLES, LENGTH), device=device)
            return given(input_ids=text, labels=text).loss

        return training(model, loss, device)

    add_unseen(name, "transformers", build)


def _images(name: str, library: str, make: Callable[[], Any], samples: int) -> None:
    """A classifier of images."""

    def build(device: str) -> Step:
        def loss(given: Any) -> Tensor:
            images = torch.randn(samples, 3, 224, 224, device=device)
            labels = torch.randint(0, 1000, (samples,), device=device)
            out = given(images)
            return functional.cross_entropy(getattr(out, "logits", out), labels)

        return training(make(), loss, device)

    add_unseen(name, library, build)


def _timm(name: str, samples: int) -> None:
    def make() -> Any:
        import timm

        return timm.create_model(name)

    _images(name, "timm", make, samples)


_SIZES = {
    "hidden_size": 768,
    "num_hidden_layers": 4,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
}
_text("ELECTRA", "ElectraForMaskedLM", "ElectraConfig", 30522, embedding_size=128, **_SIZES)
_text("GPT-NeoX", "GPTNeoXForCausalLM", "GPTNeoXConfig", 50432, **_SIZES)
_text("Phi", "PhiForCausalLM", "PhiConfig", 51200, **_SIZES)
_text("BLOOM", "BloomForCausalLM", "BloomConfig", 50000, hidden_size=768, n_layer=4, n_head=12)
_text("Granite", "GraniteForCausalLM", "GraniteConfig", 49152, **_SIZES)
_text(
    "OLMoE, 8 experts",
    "OlmoeForCausalLM",
    "OlmoeConfig",
    50304,
    num_experts=8,
    num_experts_per_tok=2,
    **{**_SIZES, "intermediate_size": 768},
)
_timm("resnext50_32x4d", 4)
_timm("inception_v3", 8)
_timm("coatnet_0_rw_224", 4)
_timm("levit_256", 16)


def _segformer() -> Any:
    from transformers import SegformerConfig, SegformerForImageClassification

    return SegformerForImageClassification(SegformerConfig(num_labels=1000))


_images("SegFormer", "transformers", _segformer, 4)


def _unet(device: str) -> Step:
    from diffusers import UNet2DConditionModel

    model = UNet2DConditionModel(
        sample_size=32,
        block_out_channels=(128, 256),
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=256,
    )

    def loss(given: Any) -> Tensor:
        noise = torch.randn(4, 4, 32, 32, device=device)
        times = torch.randint(0, 1000, (4,), device=device)
        words = torch.randn(4, 77, 256, device=device)
        return functional.mse_loss(given(noise, times, words).sample, noise)

    return training(model, loss, device)


def _adapted(device: str) -> Step:
    from peft import LoraConfig, get_peft_model
    from transformers import RobertaConfig, RobertaForMaskedLM

    base = RobertaForMaskedLM(RobertaConfig(vocab_size=50265, **_SIZES))
    model: Any = get_peft_model(base, LoraConfig(r=8, target_modules="all-linear"))

    def loss(given: Any) -> Tensor:
        text = torch.randint(3, 50000, (SAMPLES, LENGTH), device=device)
        return given(input_ids=text, labels=text).loss

    return training(model, loss, device)


class _Experts(nn.Module):
    """Two of eight experts for each token, chosen by a router; each takes those of a mask."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, 8)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(8)
        )

    def forward(self, x: Tensor) -> Tensor:
        weight, chosen = self.router(x).softmax(-1).topk(2, dim=-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            token, place = (chosen == number).nonzero(as_tuple=True)
            out.index_add_(0, token, expert(x[token]) * weight[token, place, None])
        return x + out


def _masked_experts(device: str) -> Step:
    model = nn.Sequential(nn.Linear(64, 512), _Experts(512), _Experts(512), nn.Linear(512, 1000))

    def loss(given: nn.Module) -> Tensor:
        labels = torch.randint(0, 1000, (2048,), device=device)
        return functional.cross_entropy(given(torch.randn(2048, 64, device=device)), labels)

    return training(model, loss, device)


add_unseen("UNet2D with text", "diffusers", _unet)
add_unseen("RoBERTa with LoRA", "peft", _adapted)
add_unseen("experts by masks", "torch", _masked_experts, by_values=True)
