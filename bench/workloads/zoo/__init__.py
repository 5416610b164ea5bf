"""Unchanged models of libraries, small and with random weights.

NAMES             names of all models, sorted by library
create("GPT-2")   a model in training mode, and a function that makes its batches
"""

import torch

from workloads.zoo import images, text, unusual  # noqa: F401  (each module adds its models)
from workloads.zoo.model import ZOO, Batch, Made, import_torchvision

LIBRARIES = ("transformers", "diffusers", "timm", "torchvision", "torch")
NAMES = tuple(sorted(ZOO, key=lambda name: LIBRARIES.index(ZOO[name].library)))

__all__ = ["NAMES", "ZOO", "Batch", "Made", "create"]


def create(name: str) -> Made:
    """Build a model and its batches; equal names give equal weights.

    Raises:
        ImportError: if its library is not installed.
    """
    import_torchvision()
    torch.manual_seed(0)
    made = ZOO[name].build()
    made.model.train()
    return made
