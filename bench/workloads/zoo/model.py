"""What a model of the zoo is, and where they are kept."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

Batch = dict[str, Any] | tuple[Any, ...]
"""Keyword arguments, or positional ones."""


@dataclass(frozen=True)
class Made:
    """A model and its batches.

    Args:
        model: returns a loss, alone or under the key "loss".
        batch: makes a batch of some samples.
        samples: of a usual batch.
        checkpoint: turns on checkpointing of each block, as the library has it; None if it has not.
    """

    model: nn.Module
    batch: Callable[[int], Batch]
    samples: int
    checkpoint: Callable[[], object] | None = None


@dataclass(frozen=True)
class Entry:
    """One of them: the library that it is from, and what builds it."""

    library: str
    build: Callable[[], Made]


ZOO: dict[str, Entry] = {}


def add(name: str, library: str, build: Callable[[], Made]) -> None:
    """Puts a model into the zoo."""
    ZOO[name] = Entry(library, build)


def transformer(name: str, build: Callable[[], tuple[nn.Module, Callable[[int], Batch]]]) -> None:
    """Puts a model of transformers into the zoo."""

    def made() -> Made:
        import_torchvision()
        model, batch = build()
        return Made(model, batch, 8, lambda: _enable(model))

    add(name, "transformers", made)


def _enable(model: Any) -> None:
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})


def import_torchvision() -> None:
    """Imports it where its compiled part does not fit PyTorch's: its operators are not needed.

    Both timm and transformers ask for it.
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
