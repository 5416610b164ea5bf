"""Training scripts whose largest batch `bench/fit.py` looks for; each takes `--batch-size`.

Models have their real sizes and random weights, batches are made up. They know nothing of pgmo.
"""

PROGRAMS = {
    "gpt2_medium": "GPT-2 medium, 512 tokens (transformers)",
    "llama": "Llama, 500 M parameters, 1024 tokens, bf16 (transformers)",
    "resnet50": "ResNet-50, 224 x 224 (timm)",
    "unet": "U-Net of a diffusion model, 64 x 64 (diffusers)",
    "whisper": "Whisper small, 30 s, bf16 autocast (transformers)",
}
"""What the tables call them, by the names of their files."""

LIBRARIES = ("transformers", "timm", "diffusers")
"""What they import besides torch."""
