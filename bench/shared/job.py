"""Job of one process of `sharing.py`. This module needs only the standard library."""

from dataclasses import dataclass

from support.stub_jobs import StubJob

CONTENDERS = ("default", "expandable", "pgmo", "pgmo_asleep")
"""PyTorch's allocator; PyTorch's allocator with expandable segments; pages from the start and a
session for each training; pages, a session, and optimizer state that sleeps in the rollouts."""

OURS = CONTENDERS[2:]


@dataclass(frozen=True)
class SharedJob(StubJob):
    """Jobs that share a card.

    Args:
        program: one of `shared.NAMES`.
        models: number of trainings.
        iterations: iterations of each training, or rounds of all stages.
    """

    program: str
    models: int = 1
    iterations: int = 12
