"""What one process trains, and what it reports. Only the standard library."""

from dataclasses import asdict, dataclass, field
from typing import Any

from workloads import LENGTHS, Lengths, Shape

CONTENDERS = ("default", "expandable", "pgmo", "pgmo_saved_plan")
EXTRAPOLATED = "pgmo_extrapolated"
"""Records at small batches on the same card, and begins at the batch of the job from what those
predict."""

SMALL_GPT = Lengths(64, 16, 128, 8, (16, 32, 48, 64, 96, 128))


@dataclass(frozen=True)
class Job:
    """One run of one network.

    Args:
        network: one of `workloads.NAMES`.
        lengths: `fixed`, `bucket`, `any` or `grow`.
        recompute: whether blocks recompute their activations in the backward pass.
        batch: samples per iteration.
        iterations: how many are trained.
        contender: one of `CONTENDERS`, or `EXTRAPOLATED`.
        card: bytes of device memory.
        plan: the saved plan's file, for `pgmo_saved_plan`; for `EXTRAPOLATED` the folder of the
            profiles.
        save: a folder: this is the run that records the plan, or the profiles of one batch, before
            the one that is measured.
        small: a tiny network, for tests.
        recorded_at: the batches of `EXTRAPOLATED`.
    """

    network: str
    lengths: str = "fixed"
    recompute: bool = False
    batch: int = 8
    iterations: int = 40
    contender: str = "default"
    card: int = 141 << 30
    plan: str = ""
    save: str = ""
    small: bool = False
    recorded_at: tuple[int, ...] = (2, 4, 8)

    @property
    def shape(self) -> Shape:
        """What to build."""
        return Shape(self.batch, self.recompute, self.small)

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
        drawn = lengths.draw(self.lengths, self.iterations)
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
        allocated: the largest sum of blocks that PyTorch counts as allocated, as it rounds them.
        requested: the same without the rounding.
        reserved: the largest amount taken from the card.
        reserved_replaying: the same from the first iteration on that a plan served (pgmo only).
        replaying_from: number of that iteration, from 0.
        out_of_memory: whether it ran out, and then
        error: what it said, and
        trained: the iterations before that.
        hit_bytes_rate: bytes served from slots, from the second replayed iteration on.
        first_hit_bytes_rate: the same of the program's first iteration.
        replans: how many plans took the place of another.
        gap: how far the arena is above the largest sum of planned blocks.
        notes: what the session has to say.
        torch: version.
    """

    allocated: int
    requested: int
    reserved: int
    out_of_memory: bool
    trained: int
    torch: str
    error: str = ""
    reserved_replaying: int | None = None
    replaying_from: int | None = None
    hit_bytes_rate: float | None = None
    first_hit_bytes_rate: float | None = None
    replans: int | None = None
    gap: float | None = None
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)
