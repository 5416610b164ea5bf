"""Scripts that train the same in other ways, each really done: what `bench/what_if.py` compares.

They know nothing of pgmo.
"""

PROGRAMS = {
    "gpt2": "GPT-2 small, 512 tokens (transformers)",
    "resnet50": "ResNet-50, 224 x 224 (timm)",
}
"""What the tables call them, by the names of their files."""

LIBRARIES = ("transformers", "timm", "peft")
"""What they import besides torch."""
