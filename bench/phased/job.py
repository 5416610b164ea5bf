"""What one process of `phases.py` runs. Only the standard library."""

from dataclasses import dataclass

from support.stub_jobs import StubJob

CONTENDERS = ("default", "expandable", "backup", "pages", "pgmo")
"""PyTorch's allocator; the same with expandable segments; objects that sleep as with
torch_memory_saver, on PyTorch's allocator; pgmo's pages alone; pages with `pgmo.phase`."""

OURS = ("pages", "pgmo")


@dataclass(frozen=True)
class PhasedJob(StubJob):
    """A program under one contender.

    Args:
        program: one of `phased.PROGRAMS`.
        rounds: number of rounds of all phases.
        card_file: file that stands for a card which processes share; "" for a card of its own.
    """

    program: str
    rounds: int
    card_file: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """Settings of its process."""
        shared = {"FAKECUDA_SHARED": self.card_file} if self.card_file else {}
        return super().environment | shared
