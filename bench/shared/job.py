"""What one process of `sharing.py` runs. Only the standard library."""

from dataclasses import dataclass
from typing import Any

from loops.job import LARGE_CARD
from workloads.job import process_settings

CONTENDERS = ("default", "expandable", "pgmo", "pgmo_asleep")
"""PyTorch's allocator; the same with expandable segments; pages from the start and a session (or
one for each training); the same with optimizer state asleep in the rollouts."""

OURS = CONTENDERS[2:]


@dataclass(frozen=True)
class SharedJob:
    """Jobs that share a card.

    Args:
        program: one of `shared.NAMES`.
        models: how many are trained, where they are several.
        contender: one of `CONTENDERS`.
        iterations: how many each has, or rounds of all stages.
        card: bytes of device memory.
        small: tiny networks, for tests.
    """

    program: str
    models: int = 1
    contender: str = "default"
    iterations: int = 12
    card: int = LARGE_CARD
    small: bool = False

    @property
    def environment(self) -> dict[str, str]:
        """Settings of its process."""
        return process_settings(self.contender, self.card)


def parse(fields: dict[str, Any]) -> SharedJob:
    """The job that came as JSON."""
    return SharedJob(**fields)
