"""Models whose training steps are rehearsed, and run on a card: `bench/gpu/rehearsals.py`."""

from collections.abc import Callable
from typing import Any

Step = Callable[[], Any]

MODELS: dict[str, Callable[[str], Step]] = {}
"""What makes a model's training step on a device, by the model's name."""


def add(name: str, build: Callable[[str], Step]) -> None:
    """Add a model."""
    MODELS[name] = build


def load() -> dict[str, Callable[[str], Step]]:
    """Return all models, once their modules are imported."""
    from rehearsed_models import images, others, text  # noqa: F401

    return MODELS
