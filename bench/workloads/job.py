"""Job of one process, and its outcome. This module needs only the standard library."""

from dataclasses import asdict, dataclass, field
from typing import Any

from workloads import LENGTHS, Lengths, Shape

CONTENDERS = ("default", "expandable", "pages", "pgmo", "pgmo_run")
"""PyTorch's allocator; PyTorch's allocator with expandable segments; pgmo's pages without a
session; a session without a saved plan, opened around the loop; pages from the start and a session
around the loop, as in `pgmo run`."""

OURS = CONTENDERS[2:]
PAGES_FIRST = ("pages", "pgmo_run")
SAVED_PLAN = "pgmo_saved_plan"
"""Contender: a session with a saved plan from an earlier run of the same program."""

SMALL_GPT = Lengths(64, 16, 128, (16, 32, 48, 64, 96, 128))


@dataclass(frozen=True)
class Job:
    """One run of one network.

    Args:
        network: one of `workloads.NAMES`.
        lengths: `fixed`, `bucket`, `any` or `grow`.
        recompute: whether blocks recompute their activations in the backward pass.
        batch: samples per iteration.
        iterations: number of iterations.
        seed: seed of the lengths.
        contender: one of `CONTENDERS`, or `SAVED_PLAN`.
        card: bytes of device memory.
        plan: file of the saved plan; "" for none.
        save: folder for the plan, in the earlier run of `SAVED_PLAN`; "" in all other runs.
        small: whether to build a tiny network, for tests.
        train: whether the network trains; otherwise it infers.
    """

    network: str
    lengths: str = "fixed"
    recompute: bool = False
    batch: int = 8
    iterations: int = 40
    seed: int = 0
    contender: str = "default"
    card: int = 141 << 30
    plan: str = ""
    save: str = ""
    small: bool = False
    train: bool = True

    @property
    def shape(self) -> Shape:
        """Size of the network, and options of its training."""
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

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of the job's process."""
        return process_settings(self.contender, self.card)


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


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run; sizes in bytes.

    Args:
        requested: peak of the bytes that the program requested, as PyTorch counts them.
        reserved: peak of all bytes taken from the card.
        out_of_memory: whether memory ran out.
        trained: number of iterations that ended.
        torch: version of torch.
        error: message of the out-of-memory error; "" without one.
        driver_calls: calls of the driver's virtual memory functions, per iteration of the last
            third; None if the run ended before its last third.
        requests_that_map: requests that map a page, per iteration of the last third; None without
            pages.
        waits: waits of a stream for another before it gets a page, per iteration of the last third;
            None without pages.
        cpu_seconds: CPU seconds of the process in all iterations.
        replaying_from: number of the first iteration that a plan serves, from 0; None without one.
        hit_bytes_rate: share of bytes served from slots, from the second replayed iteration on.
        replans: number of plans that replaced another plan.
        gap: how far the arena is above the max load, as a share; None without a plan.
        notes: notes of the session's summary.
    """

    requested: int
    reserved: int
    out_of_memory: bool
    trained: int
    torch: str
    error: str = ""
    driver_calls: float | None = None
    requests_that_map: float | None = None
    waits: float | None = None
    cpu_seconds: float = field(default=0.0, compare=False)
    replaying_from: int | None = None
    hit_bytes_rate: float | None = None
    replans: int | None = None
    gap: float | None = None
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary for JSON."""
        return asdict(self)
