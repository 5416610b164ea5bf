"""Programs of many ranks, of which `fakecuda_ranks.py` measures one on the stub.

A fake process group stands for the other ranks: collectives return at once and move no data.
"""

from dataclasses import dataclass

from workloads.job import StubJob

TITLES = {
    "ddp": "DDP",
    "fsdp2": "FSDP2",
    "fsdp2_recompute": "FSDP2, recomputation",
    "fsdp2_meta": "FSDP2, sharded on the meta device",
    "tensor_parallel": "tensor parallel by up to 8, FSDP2 beyond",
    "pipeline": "pipeline of up to 8 stages (1F1B), FSDP2 beyond",
}

NAMES = tuple(TITLES)
WORLDS = (2, 8, 64, 512)


@dataclass(frozen=True)
class RankJob(StubJob):
    """One rank of a program.

    Args:
        program: one of `NAMES`.
        world: number of ranks.
        iterations: number of iterations.
        batch: samples of this rank per iteration.
        lag: whether all streams lag: none does any work before the iteration has been submitted.
    """

    program: str
    world: int
    iterations: int = 18
    batch: int = 8
    lag: bool = False
