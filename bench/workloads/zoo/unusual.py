"""Models on which recomputation has failed, or whose steps are unusual.

The models checkpoint their own blocks, have custom autograd functions, write into slices, scan over
time, draw random numbers with NumPy, or choose experts.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from workloads.zoo.images import CLASSES, Denoised, _timm
from workloads.zoo.model import Batch, Made, add, import_torchvision, transformer
from workloads.zoo.text import _GROUPED, _SIZES, LENGTH, WORDS, _language_model, text, words

_GPT2 = {"vocab_size": WORDS, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": LENGTH}


def _checkpointed() -> tuple[nn.Module, Callable[[int], Batch]]:
    from transformers import GPT2Config, GPT2LMHeadModel

    model: Any = GPT2LMHeadModel(GPT2Config(**_GPT2))
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model, text


transformer("GPT-2, checkpointed", _checkpointed)
_language_model(
    "Bloom",
    "BloomForCausalLM",
    "BloomConfig",
    {"vocab_size": WORDS, "hidden_size": 64, "n_layer": 3, "n_head": 4},
)
_language_model("FNet", "FNetForMaskedLM", "FNetConfig", _SIZES)
_language_model(
    "Mamba",
    "MambaForCausalLM",
    "MambaConfig",
    {"vocab_size": WORDS, "hidden_size": 64, "num_hidden_layers": 3, "state_size": 8},
)
_language_model(
    "RWKV",
    "RwkvForCausalLM",
    "RwkvConfig",
    {"vocab_size": WORDS, "hidden_size": 64, "num_hidden_layers": 3, "context_length": LENGTH},
)
_language_model(
    "Qwen3-MoE",
    "Qwen3MoeForCausalLM",
    "Qwen3MoeConfig",
    _GROUPED
    | {
        "head_dim": 16,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 64,
    },
)
_language_model(
    "Longformer",
    "LongformerForMaskedLM",
    "LongformerConfig",
    _SIZES | {"attention_window": 16, "max_position_embeddings": LENGTH + 2},
)

_CONVOLUTIONS: dict[str, Any] = {
    "conv_dim": (32, 32, 32),
    "conv_kernel": (10, 3, 3),
    "conv_stride": (5, 2, 2),
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}


def _speech(kind: str, config: str) -> Callable[[], tuple[nn.Module, Callable[[int], Batch]]]:
    def build() -> tuple[nn.Module, Callable[[int], Batch]]:
        import transformers

        options = _SIZES | _CONVOLUTIONS | {"pad_token_id": 0}
        model = getattr(transformers, kind)(getattr(transformers, config)(**options))

        def batch(samples: int) -> Batch:
            return {"input_values": torch.randn(samples, 3200), "labels": words(samples, 12)}

        return model, batch

    return build


transformer("Wav2Vec2", _speech("Wav2Vec2ForCTC", "Wav2Vec2Config"))
transformer("Hubert", _speech("HubertForCTC", "HubertConfig"))

_timm("CoaT", "coat_tiny", 64, 4, img_size=64)
_timm("EVA-02", "eva02_tiny_patch14_224", 56, 16, img_size=56, depth=3)
_timm("FastViT", "fastvit_t8", 64, 8)
_timm("Hiera", "hiera_tiny_224", 64, 8, img_size=64, embed_dim=24, num_heads=1)
_timm("NFNet", "test_nfnet", 64, 16)


def _stable_diffusion() -> Made:
    import_torchvision()
    from diffusers import SD3Transformer2DModel

    body = SD3Transformer2DModel(
        sample_size=16,
        patch_size=2,
        in_channels=4,
        num_layers=3,
        attention_head_dim=16,
        num_attention_heads=4,
        joint_attention_dim=32,
        caption_projection_dim=64,
        pooled_projection_dim=32,
        out_channels=4,
        pos_embed_max_size=16,
    )

    def batch(samples: int) -> Batch:
        return (
            torch.randn(samples, 4, 16, 16),
            torch.randn(samples, 12, 32),
            torch.randn(samples, 32),
            torch.randint(1000, (samples,)),
        )

    model = Denoised(body, "encoder_hidden_states", "pooled_projections", "timestep")
    return Made(model, batch, 8, body.enable_gradient_checkpointing)


add("SD3", "diffusers", _stable_diffusion)


class Slices(nn.Module):
    """Layers whose results are slices of one tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(6))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the mean square of all results."""
        made = torch.zeros(len(self.layers) + 1, *inputs.shape)
        made[0] = inputs
        for index, layer in enumerate(self.layers):
            made[index + 1] = torch.tanh(layer(made[index].clone()))
        return made.square().mean()


def _slices() -> Made:
    return Made(Slices(), lambda samples: (torch.randn(samples, 64),), 4096)


add("Slices", "torch", _slices)

__all__ = ["CLASSES", "Slices"]
