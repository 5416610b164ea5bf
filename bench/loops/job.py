"""What one process of `never_worse.py` runs. Only the standard library."""

from dataclasses import dataclass

from support.stub_jobs import StubJob

from loops import Setting


@dataclass(frozen=True)
class LoopJob(StubJob):
    """One run of a loop.

    Args:
        loop: one of `loops.NAMES`.
        seed: of what it draws.
        iterations: how many.
    """

    loop: str
    seed: int = 0
    iterations: int = 24

    @property
    def setting(self) -> Setting:
        """What to build."""
        return Setting(self.seed, self.small)
