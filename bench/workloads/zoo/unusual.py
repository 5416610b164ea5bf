"""Models on which recomputation has failed, or whose steps are unusual.

The models checkpoint their own blocks, have custom autograd functions, write into slices, scan over
time, draw random numbers with NumPy, or choose experts.
"""

from typing import Any

import torch
from torch import Tensor, nn

from workloads.zoo.images import Denoised, diffuser, timm_model
from workloads.zoo.model import Batch, Made, add
from workloads.zoo.text import GPT2, GROUPED, LENGTH, SIZES, WORDS, transformer, words

_SMALL = {"vocab_size": WORDS, "hidden_size": 64}
transformer("GPT-2, checkpointed", "GPT2LMHeadModel", GPT2, checkpointed=True)
transformer("Bloom", "BloomForCausalLM", _SMALL | {"n_layer": 3, "n_head": 4})
transformer("FNet", "FNetForMaskedLM", SIZES)
transformer("Mamba", "MambaForCausalLM", _SMALL | {"num_hidden_layers": 3, "state_size": 8})
transformer("RWKV", "RwkvForCausalLM", _SMALL | {"num_hidden_layers": 3, "context_length": LENGTH})
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
transformer("Qwen3-MoE", "Qwen3MoeForCausalLM", GROUPED | {"head_dim": 16} | _EXPERTS)
_WINDOWS = {"attention_window": 16, "max_position_embeddings": LENGTH + 2}
transformer("Longformer", "LongformerForMaskedLM", SIZES | _WINDOWS)

_SPEECH: dict[str, Any] = SIZES | {
    "conv_dim": (32, 32, 32),
    "conv_kernel": (10, 3, 3),
    "conv_stride": (5, 2, 2),
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "pad_token_id": 0,
}


def _speech(samples: int) -> Batch:
    return {"input_values": torch.randn(samples, 3200), "labels": words(samples, 12)}


transformer("Wav2Vec2", "Wav2Vec2ForCTC", _SPEECH, _speech)
transformer("Hubert", "HubertForCTC", _SPEECH, _speech)

timm_model("CoaT", "coat_tiny", 64, 4, img_size=64)
timm_model("EVA-02", "eva02_tiny_patch14_224", 56, 16, img_size=56, depth=3)
timm_model("FastViT", "fastvit_t8", 64, 8)
timm_model("Hiera", "hiera_tiny_224", 64, 8, img_size=64, embed_dim=24, num_heads=1)
timm_model("NFNet", "test_nfnet", 64, 16)


def _prompted(samples: int) -> Batch:
    return (
        torch.randn(samples, 4, 16, 16),
        torch.randn(samples, 12, 32),
        torch.randn(samples, 32),
        torch.randint(1000, (samples,)),
    )


diffuser(
    "SD3",
    "SD3Transformer2DModel",
    lambda body: Denoised(body, "encoder_hidden_states", "pooled_projections", "timestep"),
    _prompted,
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


add("Slices", "torch", lambda: Made(Slices(), lambda samples: (torch.randn(samples, 64),), 4096))
