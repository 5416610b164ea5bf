"""Findings about a file without a history: blocks and segments at one moment."""

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
    """Allocations at the one moment that a file without a history shows; sizes in bytes.

    Args:
        size: requested bytes of all blocks.
        blocks: number of blocks.
        reserved: bytes of segments; None if no segments are known.
        largest_hole: largest free range in a segment; None if no segments are known.
        how: advice on recording, in a sentence.
    """

    size: int
    blocks: int
    reserved: int | None
    largest_hole: int | None
    how: str

    @property
    def nothing_recorded(self) -> str:
        """First sentence about a file without a history."""
        return (
            "The file has no history of requests, only the blocks that were allocated when it "
            "was written"
        )

    @property
    def allocated(self) -> str:
        """The allocations in words: bytes, blocks and, if known, reserved bytes."""
        plural = "" if self.blocks == 1 else "s"
        text = f"{format_bytes(self.size)} in {self.blocks:,} block{plural}"
        if self.reserved is None:
            return text
        hole = "" if not self.largest_hole else f", largest hole {format_bytes(self.largest_hole)}"
        return f"{text}; {format_bytes(self.reserved)} reserved{hole}"

    def lines(self) -> list[str]:
        """Return all findings in words, one line per fact."""
        return [f"{self.nothing_recorded}.", self.how, f"allocated   {self.allocated}"]

    def sentences(self) -> str:
        """Return all findings in one line."""
        return f"{self.nothing_recorded} ({self.allocated}). {self.how}"


def find_moment(profile: Profile) -> Moment | None:
    """Return the findings for a profile whose trace has no history; None for any other profile."""
    if profile.trace is None or not profile.is_moment:
        return None
    seen = find_fragmentation(profile.trace)
    return Moment(
        size=int(profile.size.sum(dtype=np.int64)),
        blocks=len(profile),
        reserved=None if seen is None else seen.peak_reserved,
        largest_hole=None if seen is None else seen.largest_hole,
        how=_HOW_IN_TORCH if profile.meta.framework == "torch" else _HOW_ELSEWHERE,
    )
