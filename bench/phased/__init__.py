"""Programs of reinforcement learning on one card, for `phases.py`, and ways to run phases."""

from dataclasses import dataclass

from workloads.job import StubJob

PROGRAMS = {
    "grpo": "one model trains and generates, beside a reference",
    "pool": "the same with an engine in the process, whose memory is a `MemPool`",
    "trainer": "trl's GRPOTrainer, with phases, otherwise unchanged",
    "processes": "an engine in a process of its own, with weights by CUDA IPC in each round",
}

CONTENDERS = {
    "default": "default",
    "expandable": "expandable segments",
    "backup": "backup",
    "pages": "pages alone",
    "pgmo": "pgmo",
}
"""Names in tables. With `backup`, objects sleep as with torch_memory_saver; with `pgmo`, they sleep
in phases of `pgmo.phase`."""

OURS = ("pages", "pgmo")


@dataclass(frozen=True)
class PhasedJob(StubJob):
    """Run of a program under one contender.

    Args:
        program: one of `PROGRAMS`.
        rounds: number of rounds of all phases.
        card_file: file that represents the card that two processes share; "" if one process has
            its own card.
    """

    program: str
    rounds: int
    card_file: str = ""

    @property
    def environment(self) -> dict[str, str]:
        shared = {"FAKECUDA_SHARED": self.card_file} if self.card_file else {}
        return super().environment | shared
