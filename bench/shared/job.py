"""What one process of `sharing.py` runs. Only the standard library."""

from dataclasses import dataclass

from support.stub_jobs import StubJob

CONTENDERS = ("default", "expandable", "pgmo", "pgmo_asleep")
"""PyTorch's allocator; the same with expandable segments; pages from the start and a session (or
one for each training); the same with optimizer state asleep in the rollouts."""

OURS = CONTENDERS[2:]


@dataclass(frozen=True)
class SharedJob(StubJob):
    """Jobs that share a card.

    Args:
        program: one of `shared.NAMES`.
        models: how many are trained, where they are several.
        iterations: how many each has, or rounds of all stages.
    """

    program: str
    models: int = 1
    iterations: int = 12
