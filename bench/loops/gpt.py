"""GPT-2 medium at any length, with recomputation: the network of `fakecuda_memory.py`.

In this loop windows move the most pages, because each length has blocks at other addresses.
"""

from collections.abc import Callable

from workloads import LENGTHS, Shape
from workloads import create as create_workload
from workloads.job import SMALL_GPT

from loops import Setting
from loops.loop import Loop


class GPT(Loop):
    """Training with AdamW on batches of 8 samples of 64 to 1,024 tokens."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.lengths = setting.choose(LENGTHS["gpt"], SMALL_GPT)
        self.workload = create_workload("gpt", Shape(8, recompute=True, small=setting.small))

    def run(self, iterations: int, ended: Callable[[], None], *, session: bool = False) -> None:
        for length in self.lengths.draw("any", iterations, self.setting.seed):
            self.workload.step(length)
            ended()
