"""What a file without a history says: the blocks and segments of one moment, and nothing of time.

A snapshot has no history where `_record_memory_history` was not called before the work.
"""

from dataclasses import dataclass

import numpy as np

from pgmo.profiler.profile import Profile
from pgmo.report.findings.fragmentation import find_fragmentation
from pgmo.units import format_bytes

_HOW_IN_TORCH = (
    "To record, call torch.cuda.memory._record_memory_history() before the work and "
    "torch.cuda.memory._dump_snapshot(FILE) after a few iterations."
)
_HOW_ELSEWHERE = "Record a history of requests and frees."


@dataclass(frozen=True)
class Moment:
    """What was allocated at the one moment that is known; sizes in bytes.

    Args:
        size: requested by the blocks.
        blocks: how many there are.
        reserved: in segments; None where no segments are known.
        largest_hole: the largest stretch of a segment that no block takes; None likewise.
        how: how to record, in a sentence.
    """

    size: int
    blocks: int
    reserved: int | None
    largest_hole: int | None
    how: str

    @property
    def nothing_recorded(self) -> str:
        """The first sentence about such a file."""
        return (
            "Nothing was recorded: there is no history of requests, only what was allocated when "
            "the file was written"
        )

    @property
    def allocated(self) -> str:
        """What was allocated then, in words."""
        plural = "" if self.blocks == 1 else "s"
        told = f"{format_bytes(self.size)} in {self.blocks:,} block{plural}"
        if self.reserved is None:
            return told
        hole = "" if not self.largest_hole else f", largest hole {format_bytes(self.largest_hole)}"
        return f"{told}; {format_bytes(self.reserved)} reserved{hole}"

    def lines(self) -> list[str]:
        """All of it in words, one line a fact."""
        return [f"{self.nothing_recorded}.", self.how, f"allocated   {self.allocated}"]

    def sentences(self) -> str:
        """All of it in a line."""
        return f"{self.nothing_recorded} ({self.allocated}). {self.how}"


def find_moment(profile: Profile) -> Moment | None:
    """Return what a profile without a history says; None for a profile with one."""
    trace = profile.trace
    if trace is None or trace.has_history:
        return None
    seen = find_fragmentation(trace)
    return Moment(
        size=int(profile.size.sum(dtype=np.int64)),
        blocks=len(profile),
        reserved=None if seen is None else seen.peak_reserved,
        largest_hole=None if seen is None else seen.largest_hole,
        how=_HOW_IN_TORCH if profile.meta.framework == "torch" else _HOW_ELSEWHERE,
    )
