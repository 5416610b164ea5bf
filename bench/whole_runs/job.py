"""What one process of `real_programs.py --on-stub` runs. Only the standard library."""

from dataclasses import dataclass
from typing import Any

from workloads.job import process_settings

CONTENDERS = ("default", "expandable", "pages", "pgmo_run")
"""PyTorch's allocator; the same with expandable segments; pgmo's pages without a session; `pgmo
run`."""

OURS = CONTENDERS[2:]

CARD = 64 << 30

ENDLESS = ("generate", "trl_grpo")
"""Programs that call `generate()`, which asks the device when to stop: the stub never says so."""


@dataclass(frozen=True)
class WholeRun:
    """One run of a program on the stub CUDA runtime.

    Args:
        program: one of `programs.NAMES`.
        steps: of its optimizer.
        contender: one of `CONTENDERS`.
        card: bytes of device memory.
        small: a tiny network, for tests.
    """

    program: str
    steps: int = 40
    contender: str = "default"
    card: int = CARD
    small: bool = False

    @property
    def environment(self) -> dict[str, str]:
        """Settings of its process."""
        settings = process_settings(self.contender, self.card)
        return settings | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def parse(fields: dict[str, Any]) -> WholeRun:
    """A job from a line's JSON."""
    return WholeRun(**fields)
