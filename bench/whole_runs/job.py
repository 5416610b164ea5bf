"""Job of one process of `real_programs.py --on-stub`, which needs only the standard library."""

from dataclasses import dataclass, field

from support.stub_jobs import StubJob

CONTENDERS = ("default", "expandable", "pages", "pgmo_run")
"""PyTorch's allocator; PyTorch's allocator with expandable segments; pgmo's pages without a
session; `pgmo run`."""

OURS = CONTENDERS[2:]

CARD = 64 << 30

ENDLESS = ("generate", "trl_grpo")
"""Programs whose `generate()` never ends on the stub, because it reads its end from the device."""


@dataclass(frozen=True)
class WholeRun(StubJob):
    """One run of a program on the stub CUDA runtime.

    Args:
        program: one of `programs.NAMES`.
        steps: number of optimizer steps.
    """

    program: str
    steps: int = 40
    card: int = field(default=CARD, kw_only=True)

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of the job's process."""
        return super().environment | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
