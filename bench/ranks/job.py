"""What one process of `fakecuda_ranks.py` runs. Only the standard library."""

from dataclasses import dataclass

from loops.job import LARGE_CARD
from workloads.job import process_settings


@dataclass(frozen=True)
class RankJob:
    """One rank of a program.

    Args:
        program: one of `ranks.NAMES`.
        world: how many ranks there are.
        contender: one of `workloads.job.CONTENDERS`.
        iterations: how many are trained.
        batch: samples of this rank per iteration.
        card: bytes of device memory.
        lag: whether no stream does its work before the iteration has been submitted.
        small: a tiny network, for tests.
    """

    program: str
    world: int
    contender: str = "default"
    iterations: int = 18
    batch: int = 8
    card: int = LARGE_CARD
    lag: bool = False
    small: bool = False

    @property
    def environment(self) -> dict[str, str]:
        """Settings of its process."""
        return process_settings(self.contender, self.card)
