"""Trainings that share a card, for `sharing.py`."""

from dataclasses import dataclass

from workloads.job import StubJob

PROCESSES = "processes"
NAMES = ("turns", "threads", PROCESSES)

CONTENDERS = ("default", "expandable", "pgmo")
"""PyTorch's allocator; PyTorch's allocator with expandable segments; pages from the start and a
session for each training."""

OURS = CONTENDERS[2:]
BATCHES = (8, 4, 6, 2)


@dataclass(frozen=True)
class SharedJob(StubJob):
    """Trainings that share a card.

    Args:
        program: one of `NAMES`.
        models: number of trainings.
        iterations: iterations of each training.
    """

    program: str
    models: int = 1
    iterations: int = 8
