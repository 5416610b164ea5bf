"""Scripts that train one model in several ways, for `bench/what_if.py`.

The scripts do not import pgmo.
"""

PROGRAMS = {
    "gpt2": "GPT-2 small, 512 tokens (transformers)",
    "resnet50": "ResNet-50, 224 x 224 (timm)",
}
"""Title of each script in the tables, by the name of its file."""

LIBRARIES = ("transformers", "timm", "peft")
"""Packages that the scripts import in addition to torch."""
