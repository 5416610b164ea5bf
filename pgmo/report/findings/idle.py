"""Blocks that hold much memory for a long time around the peak: what recomputing could spare.

    forward                    peak           backward
       [======== activation of block 0 ==========)      large and long: a candidate
                        [======= of block 11 ==)        alive at the peak too, but just made

When a block is requested and freed is known; when the program touches it in between is not. So
"idle" says how long a block exists, which bounds how long it may lie unused. The typical case are
blocks requested in the forward pass and freed in the backward pass: saved for it, unused between.
"""

from dataclasses import dataclass

import numpy as np

from pgmo.profiler.profile import Profile
from pgmo.report.blocks.origins import describe
from pgmo.report.findings.attribution import alive


@dataclass(frozen=True)
class Idle:
    """A block that is alive at the peak.

    Args:
        row: of the profile.
        origin: where it is requested, in one line.
        size: bytes.
        start: tick of the request.
        end: first tick at which it is gone.
        before: requests from its own to the peak.
        after: requests from the peak to its end.
        share: its lifetime as a share of the iteration; above 1 where it outlives one.
        born: phase of its request; "" if not known.
        dies: phase in which it is freed; "" if not known.

    Example:
        >>> Idle(0, "Net.relu", 1024, 0, 9, 4, 5, 0.9, "forward", "backward").saved
        True
    """

    row: int
    origin: str
    size: int
    start: int
    end: int
    before: int
    after: int
    share: float
    born: str
    dies: str

    @property
    def saved(self) -> bool:
        """Whether it looks like an activation saved for the backward pass."""
        return self.born == "forward" and self.dies in ("backward", "recompute")


def find_idle(profile: Profile, tick: int, top: int | None = 10) -> tuple[Idle, ...]:
    """The blocks alive at a tick that hold the most memory for the longest, as bytes x requests.

    Args:
        profile: the profile.
        tick: the peak's.
        top: how many; None for all.

    Example:
        >>> profile = Profile.from_columns(size=[8, 8], start=[0, 1], end=[4, 3], ticks=4)
        >>> [one.row for one in find_idle(profile, 2)]
        [0, 1]
    """
    rows = np.flatnonzero(alive(profile, tick))
    weight = profile.size[rows].astype(np.float64) * (profile.end - profile.start)[rows]
    rows = rows[np.argsort(-weight, kind="stable")][:top]
    phase_at = _Phases(profile)
    found = []
    for row in rows.tolist():
        start, end = int(profile.start[row]), int(profile.end[row])
        # Of the copies alive, the one made last: it lies on this side of the peak or in the
        # iteration before.
        before = (tick - start) % profile.ticks
        tag = int(profile.tag[row])
        found.append(
            Idle(
                row=row,
                origin=describe(profile.tags[tag] if tag >= 0 else None),
                size=int(profile.size[row]),
                start=start,
                end=end,
                before=before,
                after=end - start - before,
                share=(end - start) / profile.ticks,
                born=profile.tags[tag].phase if tag >= 0 else "",
                # It is freed after the request before its end was served.
                dies=phase_at(end - 1),
            )
        )
    return tuple(found)


class _Phases:
    """The phase that the program is in at a tick: that of the request made there."""

    def __init__(self, profile: Profile) -> None:
        order = np.argsort(profile.start, kind="stable")
        known = order[profile.tag[order] >= 0]
        self._start = profile.start[known]
        self._phase = [profile.tags[tag].phase for tag in profile.tag[known].tolist()]
        self._ticks = profile.ticks

    def __call__(self, tick: int) -> str:
        if not self._phase:
            return ""
        phase: str = self._phase[int(np.searchsorted(self._start, tick % self._ticks, "right")) - 1]
        return phase
