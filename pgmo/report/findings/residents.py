"""Blocks that are always alive: parameters, optimizer state, caches."""

from dataclasses import dataclass

import numpy as np

from pgmo.profiler.profile import Profile
from pgmo.profiler.trace_blocks import NOT_FREED
from pgmo.report.blocks.origins import names_of_tags
from pgmo.report.findings.attribution import Holder, rank


@dataclass(frozen=True)
class Residents:
    """Blocks that are always alive, and have no slot, so they do not count in the peak.

    The bytes in `phases` add up to `size` bytes, and so do the bytes in `files`.
    """

    size: int
    blocks: int
    phases: tuple[Holder, ...]
    files: tuple[Holder, ...]


def find_residents(profile: Profile, top: int = 10) -> Residents:
    """Return the blocks that are always alive, and do not count in the profile's peak.

    If the profile does not repeat, these are its persistent blocks. If it repeats, they come from
    its trace: blocks that no event frees, requested before the second iteration and before the last
    one. The result is empty for a repeating profile without a trace, and without a history.
    """
    if profile.circular and profile.trace is not None:
        blocks = profile.trace.blocks
        first = min(1, profile.trace.iterations - 1)
        kept = (blocks.freed == NOT_FREED) & (blocks.iteration < first)
        tags, tag, size = profile.trace.tags, blocks.tag[kept], blocks.size[kept]
    else:
        kept = profile.persistent & (not profile.circular and not profile.is_moment)
        tags, tag, size = profile.tags, profile.tag[kept], profile.size[kept]
    ones = np.ones(len(size), np.int64).tolist()
    lists = [
        rank(zip(names_of_tags(tags, tag, by), size.tolist(), ones, strict=True), top)
        for by in ("phase", "file")
    ]
    return Residents(int(size.sum()), len(size), *lists)
