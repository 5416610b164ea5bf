"""Jobs of processes on the stub CUDA runtime. This module needs only the standard library."""

from dataclasses import dataclass

from workloads import LENGTHS, Lengths, Shape

CONTENDERS = ("default", "expandable", "pages", "pgmo", "pgmo_run")
"""PyTorch's allocator; PyTorch's allocator with expandable segments; pgmo's pages without a
session; a session without a saved plan, opened around the loop; pages from the start and a session
around the loop, as in `pgmo run`."""

OURS = CONTENDERS[2:]
PAGES_FIRST = ("pages", "pgmo_run")
SAVED_PLAN = "pgmo_saved_plan"
"""Contender: a session with a saved plan from an earlier run of the same program."""

LARGE_CARD = 141 << 30
"""Bytes of an H200. Memory never runs out on this card, so no allocator frees cached memory."""

SMALL_GPT = Lengths(64, 16, 128, (16, 32, 48, 64, 96, 128))


def process_settings(contender: str, card: int) -> dict[str, str]:
    """Return the environment variables of a process on a stub card of `card` bytes."""
    configuration = "expandable_segments:True" if contender == "expandable" else ""
    return {
        "FAKECUDA_BYTES": str(card),
        "FAKECUDA_DEVICES": "1",
        "FAKECUDA_COPY_LIMIT": str(1 << 16),
        "PYTORCH_CUDA_ALLOC_CONF": configuration,
        "PYTORCH_ALLOC_CONF": configuration,
        "OMP_NUM_THREADS": "1",
    }


@dataclass(frozen=True, kw_only=True)
class StubJob:
    """Job of one process.

    Args:
        contender: one of `CONTENDERS`, or of the benchmark's own contenders.
        card: bytes of device memory.
        small: whether to build a tiny network, for tests.
    """

    contender: str = "default"
    card: int = LARGE_CARD
    small: bool = False

    @property
    def environment(self) -> dict[str, str]:
        return process_settings(self.contender, self.card)


@dataclass(frozen=True)
class Job(StubJob):
    """One run of one network.

    Args:
        network: a key of `workloads.CLASSES`.
        lengths: `fixed`, `bucket`, `any` or `grow`.
        recompute: whether blocks recompute their activations in the backward pass.
        batch: samples per iteration.
        iterations: number of iterations.
        seed: seed of the lengths.
        plan: file of the saved plan; "" for none.
        save: folder for the plan, in the earlier run of `SAVED_PLAN`; "" in all other runs.
        train: whether the network trains; otherwise it infers.
    """

    network: str
    lengths: str = "fixed"
    recompute: bool = False
    batch: int = 8
    iterations: int = 40
    seed: int = 0
    plan: str = ""
    save: str = ""
    train: bool = True

    @property
    def shape(self) -> Shape:
        return Shape(self.batch, self.recompute, self.small, train=self.train)

    @property
    def drawn_lengths(self) -> list[int]:
        """Length of each iteration in tokens; 0 for networks without lengths.

        A run that saves a plan has the lengths of the measured run, twice.
        """
        lengths = LENGTHS.get(self.network)
        if lengths is None:
            return [0] * self.iterations
        if self.small and self.network == "gpt":
            lengths = SMALL_GPT
        drawn = lengths.draw(self.lengths, self.iterations, self.seed)
        return [*drawn, *drawn] if self.save else drawn
