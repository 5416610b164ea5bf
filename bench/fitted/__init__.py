"""Training scripts with the option `--batch-size`, whose largest batch `bench/fit.py` looks for.

Models have their real sizes and random weights; batches are made up. The scripts do not import
pgmo.
"""

PROGRAMS = {
    "gpt2_medium": "GPT-2 medium, 512 tokens (transformers)",
    "llama": "Llama, 500 M parameters, 1024 tokens, bf16 (transformers)",
    "resnet50": "ResNet-50, 224 x 224 (timm)",
    "unet": "U-Net of a diffusion model, 64 x 64 (diffusers)",
    "whisper": "Whisper small, 30 s, bf16 autocast (transformers)",
}
"""Title of each script in the tables, by the name of its file."""

LIBRARIES = ("transformers", "timm", "diffusers")
"""Packages that the scripts import in addition to torch."""
