"""What one process of `fakecuda_ranks.py` runs. Only the standard library."""

from dataclasses import dataclass

from support.stub_jobs import StubJob


@dataclass(frozen=True)
class RankJob(StubJob):
    """One rank of a program.

    Args:
        program: one of `ranks.NAMES`.
        world: how many ranks there are.
        iterations: how many are trained.
        batch: samples of this rank per iteration.
        lag: whether no stream does its work before the iteration has been submitted.
    """

    program: str
    world: int
    iterations: int = 18
    batch: int = 8
    lag: bool = False
