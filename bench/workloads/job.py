"""What one process trains, and what it reports. Only the standard library."""

from dataclasses import asdict, dataclass, field
from typing import Any

from workloads import LENGTHS, Lengths, Shape

CONTENDERS = ("default", "expandable", "pages", "pgmo", "pgmo_run")
"""PyTorch's allocator; the same with expandable segments; pgmo's pages without a session; a session
without a saved plan, opened around the loop; pages from the start and a session around the loop, as
`pgmo run` has it."""

OURS = CONTENDERS[2:]
PAGES_FIRST = ("pages", "pgmo_run")
SAVED_PLAN = "pgmo_saved_plan"
"""A session with a plan of an earlier run of the same program."""

SMALL_GPT = Lengths(64, 16, 128, (16, 32, 48, 64, 96, 128))


@dataclass(frozen=True)
class Job:
    """One run of one network.

    Args:
        network: one of `workloads.NAMES`.
        lengths: `fixed`, `bucket`, `any` or `grow`.
        recompute: whether blocks recompute their activations in the backward pass.
        batch: samples per iteration.
        iterations: how many are trained.
        seed: of the lengths that are drawn.
        contender: one of `CONTENDERS`, or `SAVED_PLAN`.
        card: bytes of device memory.
        plan: the saved plan's file, for `SAVED_PLAN`.
        save: a folder: this is the run that records the plan, before the one that is measured.
        small: a tiny network, for tests.
        train: whether it trains; else it infers.
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
        """What to build."""
        return Shape(self.batch, self.recompute, self.small, train=self.train)

    @property
    def drawn_lengths(self) -> list[int]:
        """The length of each iteration; 0 for networks without one.

        A run that records is an earlier run of the same program: it sees the same lengths, twice.
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
        """Settings of its process."""
        return process_settings(self.contender, self.card)


def process_settings(contender: str, card: int) -> dict[str, str]:
    """The environment of a process on a stub card of so many bytes."""
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
    """What a run reports; sizes in bytes.

    Args:
        requested: the largest sum of bytes that the program asked for, by PyTorch's count.
        reserved: the largest amount taken from the card, by whomever.
        replaying_from: number of the first iteration that a plan served, from 0 (pgmo only).
        out_of_memory: whether it ran out, and then
        error: what it said, and
        trained: the iterations before that.
        hit_bytes_rate: bytes served from slots, from the second replayed iteration on.
        replans: how many plans took the place of another.
        driver_calls: of the driver's virtual memory, per iteration in the last third; None when
            that was not reached.
        requests_that_map: requests that map a page, per iteration in the last third, and
        waits: of one stream for another, before it gets a page; None without pages.
        cpu_seconds: of the process in all iterations.
        gap: how far the arena is above the largest sum of planned blocks.
        notes: what the session has to say.
        torch: version.
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
        """For JSON."""
        return asdict(self)
