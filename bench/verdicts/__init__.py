"""Programs whose verdict `verdict.py` holds against a run of plain PyTorch."""

from dataclasses import dataclass

from loops import FAMILIES
from programs import PROGRAMS

ENDLESS = ("generate", "trl_grpo")
"""Programs that call `generate()`, which asks the device when to stop: the stub never says so."""


@dataclass(frozen=True)
class Case:
    """One program, under one configuration of PyTorch's allocator.

    Args:
        kind: "loop" (`loops`) or "program" (`programs`).
        name: of the loop or program.
        seed: of what a loop draws.
        iterations: of a loop, or steps of a program.
        card: bytes of device memory.
        configuration: `PYTORCH_ALLOC_CONF`.
        small: whether networks are tiny, for tests.
    """

    kind: str
    name: str
    seed: int = 0
    iterations: int = 24
    card: int = 141 << 30
    configuration: str = ""
    small: bool = False

    @property
    def label(self) -> str:
        """The case in a line of a table."""
        seed = f" {self.seed}" if self.kind == "loop" else ""
        text = f"{self.name}{seed}"
        return f"{text}, {self.configuration}" if self.configuration else text


EXPANDABLE = "expandable_segments:True"


def all_cases(*, small: bool = False) -> list[Case]:
    """Every case, in the order of the table."""
    loops = [Case("loop", name, small=small) for name in FAMILIES if name != "trainer_callback"]
    programs = [
        Case("program", name, iterations=40, small=small)
        for name in PROGRAMS
        if name not in ENDLESS
    ]
    expandable = [
        Case("loop", name, configuration=EXPANDABLE, small=small)
        for name in ("llama_padded", "mixture_of_experts")
    ]
    return [*loops, *expandable, *programs]
