r"""All blocks of a recording, their peak, and how far the peak falls without some blocks.

live   |      /\     peak                   |
bytes  |  /\ /  \                           |  /\  __    peak without the blocks of a cause:
       | /  \    \                          | /  \/  \   its saving
       +-------------------------------     +--------------------
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.profile import NEVER, Profile
from pgmo.profiler.tag import Tag
from pgmo.profiler.trace import Event, Trace
from pgmo.profiler.trace_blocks import NOT_FREED

Mask = NDArray[np.bool_]


def by_tag(tags: Sequence[Tag], tag: NDArray[np.int32], matches: Callable[[Tag], object]) -> Mask:
    """Return whether each block's tag satisfies a condition; False for a block without a tag."""
    found: Mask = np.array([*(bool(matches(one)) for one in tags), False])[tag]
    return found  # a tag of -1 indexes the last entry


@dataclass(frozen=True, eq=False)
class AllBlocks:
    """Blocks of a whole recording, or of one iteration if the profile has no trace.

    Args:
        size: bytes, shape (n,).
        start: request that allocates the block, shape (n,).
        end: number of requests made before the block is freed, shape (n,).
        tag: index into `tags`, -1 for none, shape (n,).
        stays: whether no event frees the block, shape (n,).
        tags: origins.
        marks: number of requests made before each mark of the trace, shape (k,).
    """

    size: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    tag: NDArray[np.int32]
    stays: Mask
    tags: tuple[Tag, ...]
    marks: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def of(cls, profile: Profile) -> "AllBlocks":
        """Return the blocks of the profile's trace, or of its iteration if it has none."""
        if profile.trace is not None:
            return cls._of_trace(profile.trace)
        stays = profile.end == NEVER
        end = np.where(stays, profile.ticks, np.minimum(profile.end, profile.ticks))
        return cls(profile.size, profile.start, end, profile.tag, stays, profile.tags)

    @classmethod
    def _of_trace(cls, trace: Trace) -> "AllBlocks":
        blocks = trace.blocks
        requests, stays = blocks.requests, blocks.ends == NOT_FREED
        start = np.searchsorted(requests, blocks.row)
        end = np.where(stays, max(1, len(requests)), np.searchsorted(requests, blocks.ends))
        marks = np.searchsorted(requests, np.flatnonzero(trace.kind == Event.MARK))
        return cls(blocks.size, start, end, blocks.tag, stays, trace.tags, marks)

    @cached_property
    def ticks(self) -> int:
        """Number of requests, at least 1 if there are blocks."""
        return int(max(self.end.max(initial=0), self.start.max(initial=-1) + 1))

    @cached_property
    def live(self) -> NDArray[np.int64]:
        """Live bytes at each request, shape (ticks,)."""
        return self._live(self.size)

    @property
    def peak(self) -> int:
        """Largest number of bytes that are alive at once."""
        return int(self.live.max(initial=0))

    @cached_property
    def at_peak(self) -> Mask:
        """Mask of the blocks that are alive at the first request of the peak, shape (n,)."""
        tick = int(np.argmax(self.live)) if self.ticks else 0
        return (self.start <= tick) & (tick < self.end)

    def without(self, phase: str) -> Mask:
        """Return a mask of blocks whose lifetimes contain no request of a phase, shape (n,)."""
        requests = np.zeros(self.ticks + 1, np.int64)
        np.add.at(requests, self.start[self.by_phase(phase)] + 1, 1)
        before = np.cumsum(requests)  # requests of the phase before each request
        found: Mask = before[self.start] == before[self.end]
        return found

    @cached_property
    def unused_by_backward(self) -> Mask:
        """Mask of forward blocks whose lifetimes contain no backward request, shape (n,)."""
        return self.without("backward") & self.by_phase("forward")

    def saving(self, blocks: Mask, left: float | NDArray[np.float64] = 0.0) -> int:
        """Return by how many bytes the peak falls if these blocks shrink or vanish.

        Args:
            blocks: mask of the blocks, shape (n,).
            left: share of bytes that stays: one share for all blocks, or one per block, shape (n,).
        """
        size = np.where(blocks, (self.size * left).astype(np.int64), self.size)
        return self.peak - int(self._live(size).max(initial=0))

    def saving_until(self, end: NDArray[np.int64]) -> int:
        """Return by how many bytes the peak falls if blocks are freed at other times.

        Args:
            end: number of requests made before each block is freed, shape (n,).
        """
        return self.peak - int(self._live(self.size, end).max(initial=0))

    def saving_within(
        self, size: NDArray[np.int64], start: NDArray[np.int64], end: NDArray[np.int64]
    ) -> int:
        """Return by how many bytes the peak falls if some bytes are missing for a time.

        Args:
            size: missing bytes, shape (k,).
            start: request from which on the bytes are missing, shape (k,).
            end: number of requests made before the bytes are allocated again, shape (k,).
        """
        change = np.zeros(self.ticks + 1, np.int64)
        np.add.at(change, start, size)
        np.add.at(change, end, -size)
        return self.peak - int((self.live - np.cumsum(change)[:-1]).max(initial=0))

    @cached_property
    def passes(self) -> NDArray[np.int64]:
        """First request of each backward pass, shape (k,)."""
        backward = np.unique(self.start[self.by_phase("backward")])
        forward = np.unique(self.start[self.by_phase("forward")])
        begins: NDArray[np.int64] = backward[
            np.diff(np.searchsorted(forward, backward), prepend=-1) > 0
        ]
        return begins

    @cached_property
    def passes_survived(self) -> NDArray[np.int64]:
        """Number of backward passes that begin during each block's lifetime, shape (n,)."""
        before = np.searchsorted(self.passes, self.start, "right")
        return np.asarray(np.searchsorted(self.passes, self.end) - before, np.int64)

    def outlive(self, passes: int) -> Mask:
        """Return which blocks stay, or live while at least `passes` passes begin, shape (n,)."""
        return self.stays | (self.passes_survived >= passes)

    def in_order(self, blocks: Mask) -> NDArray[np.int64]:
        """Return the rows of these blocks, in the order of their requests."""
        rows = np.flatnonzero(blocks)
        return rows[np.argsort(self.start[rows], kind="stable")]

    def by_operator(self, pattern: str) -> Mask:
        """Return whether each block's operator matches a regular expression, shape (n,)."""
        search = re.compile(pattern).search
        return self.by_tag(lambda tag: search(tag.op))

    def by_phase(self, phase: str) -> Mask:
        """Return whether each block is requested in a phase, shape (n,)."""
        return self.by_tag(lambda tag: tag.phase == phase)

    def by_line(self, pattern: str) -> Mask:
        """Return whether a line of each block's stack matches a regular expression, shape (n,)."""
        search = re.compile(pattern).search
        return self.by_tag(lambda tag: any(map(search, tag.stack)))

    def by_stack(self, pattern: str) -> Mask:
        """Return whether each block's stack, one call per line, matches a regular expression."""
        search = re.compile(pattern).search
        return self.by_tag(lambda tag: search("\n".join(tag.stack)))

    def by_tag(self, matches: Callable[[Tag], object]) -> Mask:
        """Return whether each block's tag satisfies a condition, shape (n,)."""
        return by_tag(self.tags, self.tag, matches)

    def place(self, blocks: Mask) -> str:
        """Return the line or module with most bytes, as " (at LINE)"; "" if none is known."""
        known = blocks & (self.tag >= 0)
        sizes: dict[str, int] = {}
        for tag, size in zip(self.tag[known].tolist(), self.size[known].tolist(), strict=True):
            name = self.tags[tag].file or self.tags[tag].module
            sizes[name] = sizes.get(name, 0) + size
        sizes.pop("", None)
        return f" (at {max(sizes, key=lambda name: sizes[name])})" if sizes else ""

    def _live(
        self, size: NDArray[np.int64], end: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        change = np.zeros(self.ticks + 1, np.int64)
        np.add.at(change, self.start, size)
        np.add.at(change, self.end if end is None else end, -size)
        live: NDArray[np.int64] = np.cumsum(change)[:-1]
        return live
