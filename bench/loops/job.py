"""What one process of `never_worse.py` runs. Only the standard library."""

from dataclasses import dataclass

from workloads.job import process_settings

from loops import Setting

LARGE_CARD = 141 << 30


@dataclass(frozen=True)
class LoopJob:
    """One run of a loop.

    Args:
        loop: one of `loops.NAMES`.
        seed: of what it draws.
        iterations: how many.
        contender: one of `workloads.job.CONTENDERS`.
        card: bytes of device memory.
        small: a tiny network, for tests.
    """

    loop: str
    seed: int = 0
    iterations: int = 24
    contender: str = "default"
    card: int = LARGE_CARD
    small: bool = False

    @property
    def setting(self) -> Setting:
        """What to build."""
        return Setting(self.seed, self.small)

    @property
    def environment(self) -> dict[str, str]:
        """Settings of its process."""
        return process_settings(self.contender, self.card)
