"""What one process of `real_programs.py --on-stub` runs. Only the standard library."""

from dataclasses import dataclass, field

from support.stub_jobs import StubJob

CONTENDERS = ("default", "expandable", "pages", "pgmo_run")
"""PyTorch's allocator; the same with expandable segments; pgmo's pages without a session; `pgmo
run`."""

OURS = CONTENDERS[2:]

CARD = 64 << 30

ENDLESS = ("generate", "trl_grpo")
"""Programs that call `generate()`, which asks the device when to stop: the stub never says so."""


@dataclass(frozen=True)
class WholeRun(StubJob):
    """One run of a program on the stub CUDA runtime.

    Args:
        program: one of `programs.NAMES`.
        steps: of its optimizer.
    """

    program: str
    steps: int = 40
    card: int = field(default=CARD, kw_only=True)

    @property
    def environment(self) -> dict[str, str]:
        """Settings of its process."""
        return super().environment | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
