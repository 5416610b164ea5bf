"""Job of one process of `never_worse.py`. This module needs only the standard library."""

from dataclasses import dataclass

from support.stub_jobs import StubJob

from loops import Setting


@dataclass(frozen=True)
class LoopJob(StubJob):
    """One run of a loop.

    Args:
        loop: one of `loops.NAMES`, or of `loops.OWN`.
        seed: seed of lengths, routing and sizes.
        iterations: number of iterations.
    """

    loop: str
    seed: int = 0
    iterations: int = 24

    @property
    def setting(self) -> Setting:
        """Size and seed of the loop."""
        return Setting(self.seed, self.small)
