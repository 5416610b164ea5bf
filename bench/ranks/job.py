"""Job of one process of `fakecuda_ranks.py`. This module needs only the standard library."""

from dataclasses import dataclass

from support.stub_jobs import StubJob


@dataclass(frozen=True)
class RankJob(StubJob):
    """One rank of a program.

    Args:
        program: one of `ranks.NAMES`.
        world: number of ranks.
        iterations: number of iterations.
        batch: samples of this rank per iteration.
        lag: whether all streams lag: none does any work before the iteration has been submitted.
    """

    program: str
    world: int
    iterations: int = 18
    batch: int = 8
    lag: bool = False
