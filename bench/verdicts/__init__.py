"""Programs whose verdict `verdict.py` compares with a run of plain PyTorch."""

from dataclasses import dataclass

from loops import FAMILIES
from programs import ENDLESS, PROGRAMS


@dataclass(frozen=True)
class Case:
    """One program under one configuration of PyTorch's allocator.

    Args:
        kind: "loop" (`loops`) or "program" (`programs`).
        name: name of the loop or program.
        seed: seed of a loop's lengths, routing and sizes.
        iterations: iterations of a loop, or steps of a program.
        card: bytes of device memory.
        configuration: value of `PYTORCH_ALLOC_CONF`.
        small: whether to build tiny networks, for tests.
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
        """Name of the case in a table."""
        seed = f" {self.seed}" if self.kind == "loop" else ""
        text = f"{self.name}{seed}"
        return f"{text}, {self.configuration}" if self.configuration else text


EXPANDABLE = "expandable_segments:True"


def all_cases(*, small: bool = False) -> list[Case]:
    """Return every case, in the order of the table."""
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
