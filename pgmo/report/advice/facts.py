"""Input and result of the advice rules."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.profile import Profile
from pgmo.report.advice.all_blocks import AllBlocks, Mask, by_tag
from pgmo.report.blocks.origins import UNNAMED
from pgmo.report.findings.attribution import OTHERS, alive, hold
from pgmo.units import format_bytes

if TYPE_CHECKING:
    from pgmo.report.summary import Explanation

LEAST_SAVING = 0.1
"""Minimum share of the peak that the fix of a cause must save. Leaks have no minimum."""


@dataclass(frozen=True)
class Hint:
    """One piece of advice.

    Args:
        title: a few words.
        text: the observation with its figures, and the advice.
        bytes: bytes that the fix saves, if the hint is a cause; else the bytes by which hints are
            sorted.
        is_cause: whether the cause is known. Except for leaks, the saving of its fix was computed.
        peak: bytes of the peak that a cause lowers, such as the peak of reserved bytes; 0 for the
            peak of live bytes.
        changes_results: whether the fix of a cause changes results. Other causes are listed first.
    """

    title: str
    text: str
    bytes: int
    is_cause: bool = False
    peak: int = 0
    changes_results: bool = False


@dataclass(frozen=True, eq=False)
class Facts:
    """Input of the rules: a profile, and its explanation without hints."""

    profile: Profile
    explanation: "Explanation"

    @property
    def arena(self) -> int | None:
        """Bytes of the plan's arena; None without a plan."""
        return None if self.explanation.plan is None else self.explanation.plan.arena

    @cached_property
    def blocks(self) -> AllBlocks:
        """Blocks of the whole recording, or of the iteration if the profile has no trace."""
        return AllBlocks.of(self.profile)

    @cached_property
    def copies(self) -> NDArray[np.int64]:
        """Number of live copies of each block at the peak, shape (n,)."""
        return alive(self.profile, self.explanation.peak.tick)

    @property
    def before(self) -> NDArray[np.int64]:
        """Number of each block's live copies at the peak from earlier iterations, shape (n,)."""
        tick = self.explanation.peak.tick
        own = (self.profile.start <= tick) & (tick < self.profile.end)
        return np.asarray(self.copies - ((self.copies > 0) & own), np.int64)

    def born(self, phase: str) -> Mask:
        """Return whether each block is requested in a phase, shape (n,)."""
        return by_tag(self.profile.tags, self.profile.tag, lambda tag: tag.phase == phase)

    def size(self, copies: NDArray[np.int64]) -> int:
        """Return the sum of all blocks' sizes, each times its number in `copies`, in bytes."""
        return int((self.profile.size * copies).sum())

    def share(self, size: int) -> float:
        """Return bytes as a share of the peak; 0.0 if the peak is 0."""
        return size / self.explanation.peak.size if self.explanation.peak.size else 0.0

    def is_large(self, size: int, least: float) -> bool:
        """Return whether bytes are at least the share `least` of the peak.

        They must also be at least 1 % of the peak and the residents together, because an iteration
        may need little memory compared with a large model.
        """
        known = self.explanation.peak.size + self.explanation.residents.size
        return (
            bool(self.explanation.peak.size) and self.share(size) >= least and size >= known / 100
        )

    @property
    def is_expandable(self) -> bool:
        """Return whether the trace was recorded with expandable segments; False without a trace."""
        trace = self.profile.trace
        if trace is None:
            return False
        texts = [str(value) for value in trace.settings.values()]
        own = trace.settings.get("expandable_segments") == "True"
        return own or any("expandable_segments:True" in text for text in texts)

    def largest(self, copies: NDArray[np.int64]) -> str:
        """Return the largest origin as " (largest part: NAME, 3 MiB)"; "" if it has no name."""
        for by in ("file", "module", "op"):
            for holder in hold(self.profile, copies, by, top=1):
                if holder.name not in (*UNNAMED, OTHERS):
                    return f" (largest part: {holder.name}, {format_bytes(holder.size)})"
        return ""


def cause(
    facts: Facts,
    title: str,
    blocks: Mask,
    what: str,
    fix: str,
    *,
    left: float | NDArray[np.float64] = 0.0,
    end: NDArray[np.int64] | None = None,
) -> Hint | None:
    """Return the hint of a cause, with the saving of its fix; None if the saving is small.

    Args:
        facts: input of the rule.
        title: a few words.
        blocks: which of `facts.blocks` the fix avoids, shrinks or frees earlier, shape (n,).
        what: description of the blocks, beginning with a verb, such as "are one-hot matrices".
        fix: what to change, without the full stop.
        left: share of bytes that stays: one share for all blocks, or one per block, shape (n,).
        end: number of requests made before each block is freed with the fix, shape (n,); None if
            the fix does not change the times of frees.
    """
    everything = facts.blocks
    at_peak = blocks & everything.at_peak
    held = int(everything.size[at_peak].sum())
    return hint_of_fix(
        facts,
        title,
        f"{format_bytes(held)} of the peak of {format_bytes(everything.peak)} {what}"
        f"{everything.place(at_peak)}. {fix}",
        everything.saving(blocks, left) if end is None else everything.saving_until(end),
    )


def hint_of_fix(
    facts: Facts, title: str, text: str, saving: int, *, changes_results: bool = False
) -> Hint | None:
    """Return the hint of a cause; None if its fix saves less than `LEAST_SAVING` of the peak.

    `text` is the observation and the fix, without the full stop. The saving is appended.
    """
    if not saving or saving < LEAST_SAVING * facts.blocks.peak:
        return None
    return Hint(
        title,
        f"{text}: the peak falls by {format_bytes(saving)}.",
        saving,
        is_cause=True,
        changes_results=changes_results,
    )
