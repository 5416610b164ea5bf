"""Unchanged models of libraries, small and with random weights.

NAMES             names of all models, sorted by library
create("GPT-2")   a model in training mode, and a function that makes its batches
"""

from workloads.zoo.images import *  # noqa: F403  (each module adds its models)
from workloads.zoo.model import ZOO, Batch, Made
from workloads.zoo.text import *  # noqa: F403
from workloads.zoo.unusual import *  # noqa: F403

LIBRARIES = ("transformers", "diffusers", "timm", "torchvision", "torch")
NAMES = tuple(sorted(ZOO, key=lambda name: LIBRARIES.index(ZOO[name].library)))

__all__ = ["NAMES", "ZOO", "Batch", "Made", "create"]


def create(name: str) -> Made:
    """Build a model and its batches; equal names give equal weights.

    Raises:
        ImportError: if its library is not installed.
    """
    import torch

    torch.manual_seed(0)
    made = ZOO[name].build()
    made.model.train()
    return made
