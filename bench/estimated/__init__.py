"""Models whose memory is estimated from fake tensors, and measured on the stub CUDA runtime."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Step = Callable[[], Any]


@dataclass(frozen=True)
class Entry:
    """A model: the library that it is from, and what builds its training step on a device."""

    library: str
    build: Callable[[str], Step]


MODELS: dict[str, Entry] = {}
UNSEEN: dict[str, Entry] = {}


def add(name: str, library: str, build: Callable[[str], Step]) -> None:
    """Adds a model to those that are measured."""
    MODELS[name] = Entry(library, build)


def add_unseen(name: str, library: str, build: Callable[[str], Step]) -> None:
    """Adds a model to those that show how far off an estimate of any other one is."""
    UNSEEN[name] = Entry(library, build)


def load() -> dict[str, Entry]:
    """Those that the rules were tried with, in their order, and then the others."""
    from estimated import images, others, text, unseen  # noqa: F401

    return MODELS | UNSEEN
