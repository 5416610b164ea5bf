"""Models whose memory is estimated from fake tensors, and measured on the stub CUDA runtime."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

CARD = "H100"
"""The stub's card: its multiprocessors and its compute capability."""

Step = Callable[[], Any]


@dataclass(frozen=True)
class Entry:
    """A model, and how it is measured.

    Attributes:
        library: that it is from.
        build: makes its training step on a device.
        by_values: whether sizes depend on values. Kernels of the stub compute none, so that it is
            measured as a rehearsal, which makes them up.
    """

    library: str
    build: Callable[[str], Step]
    by_values: bool = False


MODELS: dict[str, Entry] = {}
UNSEEN: dict[str, Entry] = {}


def add(name: str, library: str, build: Callable[[str], Step]) -> None:
    """Adds a model to those that are measured."""
    MODELS[name] = Entry(library, build)


def add_unseen(
    name: str, library: str, build: Callable[[str], Step], *, by_values: bool = False
) -> None:
    """Adds a model to those that show how far off an estimate of any other one is."""
    UNSEEN[name] = Entry(library, build, by_values)


def load() -> dict[str, Entry]:
    """Those that the rules were tried with, in their order, and then the others."""
    from estimated import images, others, text, unseen  # noqa: F401

    return MODELS | UNSEEN
