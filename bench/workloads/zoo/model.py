"""Models of the zoo and their registry."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

Batch = dict[str, Any] | tuple[Any, ...]
"""Keyword arguments of a model, or positional ones."""


@dataclass(frozen=True)
class Made:
    """Model and its batches.

    Args:
        model: module that returns a loss, alone or under the key "loss".
        batch: makes a batch of a number of samples.
        samples: samples of a usual batch.
        checkpoint: turns on the library's checkpointing of each block; None if it has none.
    """

    model: nn.Module
    batch: Callable[[int], Batch]
    samples: int
    checkpoint: Callable[[], object] | None = None


@dataclass(frozen=True)
class Entry:
    """Entry of the zoo: the model's library, and the function that builds the model."""

    library: str
    build: Callable[[], Made]


ZOO: dict[str, Entry] = {}


def add(name: str, library: str, build: Callable[[], Made]) -> None:
    """Add a model to the zoo."""
    ZOO[name] = Entry(library, build)


def import_torchvision() -> None:
    """Import torchvision even if its compiled operators do not fit PyTorch's version.

    timm and transformers import torchvision, but the models here use none of these operators.
    """
    import torch.library

    register = torch.library.register_fake

    def skip(operator: Any, *options: Any, **more: Any) -> Any:
        if isinstance(operator, str) and operator.startswith("torchvision::"):
            return lambda function: function
        return register(operator, *options, **more)

    torch.library.register_fake = skip
    try:
        import torchvision  # noqa: F401
    except ImportError:
        pass
    finally:
        torch.library.register_fake = register
