"""Whole runs of the programs of `bench/programs`, without and with pgmo."""

from dataclasses import dataclass, field

from workloads.job import StubJob

CONTENDERS = ("default", "expandable", "pages", "pgmo_run")
"""Contenders on the stub runtime: `pgmo run`, and the others as in `workloads.job`."""

OURS = CONTENDERS[2:]


@dataclass(frozen=True)
class WholeRun(StubJob):
    """One run of a program on the stub CUDA runtime.

    Args:
        program: one of `programs.NAMES`.
        steps: number of optimizer steps.
    """

    program: str
    steps: int = 40
    card: int = field(default=64 << 30, kw_only=True)

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
