"""GPT-2 medium at any length, with recomputation: the network of `fakecuda_memory.py`.

Windows move most pages here, because the blocks of each length lie elsewhere.
"""

from collections.abc import Callable

from workloads import LENGTHS, Shape
from workloads import create as create_workload
from workloads.job import SMALL_GPT

from loops import Setting
from loops.loop import Loop


class GPT(Loop):
    """Batches of 8, from 64 to 1,024 tokens, AdamW."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.lengths = setting.choose(LENGTHS["gpt"], SMALL_GPT)
        self.workload = create_workload("gpt", Shape(8, recompute=True, small=setting.small))

    def run(self, iterations: int, ended: Callable[[], None], *, session: bool = False) -> None:
        """Runs the loop, see `Loop.run`."""
        for length in self.lengths.draw("any", iterations, self.setting.seed):
            self.workload.step(length)
            ended()


LOOPS = {"gpt_any_length": GPT}
