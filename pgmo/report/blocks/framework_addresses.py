"""Addresses that the framework's own allocator has chosen, without the unused gaps.

    addresses   0x7f00 [ segment ]......................0x7f90 [ segment ][ segment ]
    squeezed    0      [ segment ]                             [ segment ][ segment ]

Segments are far apart in the address space, so a drawing to scale would be almost empty.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.profile import Profile
from pgmo.profiler.trace import Event, Trace

_APART = 2 * 2**20
"""If segments are unknown, only gaps above this number of bytes are removed."""


@dataclass(frozen=True, eq=False)
class Placement:
    """Blocks in an address space without gaps.

    Args:
        position: position of each block in bytes, -1 if its address is unknown, shape (n,).
        segments: position, bytes and address of each segment; shape (s, 3).
        resident: blocks that exist during the whole trace and are not in the profile: position,
            bytes, and index into the trace's tags; shape (r, 3).
        height: bytes of the whole space.
    """

    position: NDArray[np.int64]
    segments: NDArray[np.int64]
    resident: NDArray[np.int64]
    height: int


def find_placement(profile: Profile, address: NDArray[np.int64]) -> Placement | None:
    """Remove the gaps from addresses; return None if no address is known.

    Args:
        profile: the profile.
        address: address of each block, or 0, shape (n,): the profile's own column, or the result of
            an allocator model. Segments and residents of the trace are used only for the profile's
            own column.
    """
    known = address > 0
    if not known.any():
        return None
    segments = np.zeros((0, 2), np.int64)
    resident = np.zeros((0, 3), np.int64)
    if profile.trace is not None and address is profile.address:
        segments = _segments(profile.trace)
        resident = _residents(profile.trace)
        mine = np.isin(resident[:, 0], address[known & profile.persistent])
        resident = resident[~mine]
    blocks = np.column_stack([address, profile.size])[known]
    low, base = _ranges(np.concatenate([blocks, resident[:, :2], segments]), len(segments) > 0)

    def squeeze(at: NDArray[np.int64]) -> NDArray[np.int64]:
        which = np.searchsorted(low, at, side="right") - 1
        return base[which] + at - low[which]

    position = np.full(len(profile), -1, np.int64)
    position[known] = squeeze(address[known])
    resident = np.column_stack([squeeze(resident[:, 0]), resident[:, 1:]])
    squeezed = np.column_stack([squeeze(segments[:, 0]), segments[:, 1], segments[:, 0]])
    everything = np.concatenate(
        [
            np.column_stack([position, profile.size])[known],
            resident[:, :2],
            squeezed[:, :2],
        ]
    )
    return Placement(position, squeezed, resident, int(everything.sum(axis=1).max()))


def _segments(trace: Trace) -> NDArray[np.int64]:
    """Return address and bytes of each range that was ever reserved, in order of address."""
    whole = trace.kind == Event.SEGMENT_ALLOC
    pieces = trace.kind == Event.SEGMENT_MAP
    taken = np.column_stack([trace.address, trace.size])
    joined = _merge(taken[pieces], touching=True)
    return _merge(np.concatenate([taken[whole & (trace.size > 0)], joined]), touching=False)


def _residents(trace: Trace) -> NDArray[np.int64]:
    """Return address, bytes and tag of blocks that exist during the whole trace."""
    alive: dict[int, tuple[int, int]] = {}
    before = np.flatnonzero(trace.kind[: trace.before] == Event.ALLOC)
    for row in before.tolist():
        alive[int(trace.address[row])] = (int(trace.size[row]), int(trace.tag[row]))
    freed = np.isin(trace.kind, (Event.FREE_REQUESTED, Event.FREE_COMPLETED))
    for address in np.unique(trace.address[freed]).tolist():
        alive.pop(address, None)
    rows = [(address, size, tag) for address, (size, tag) in alive.items() if address and size]
    return np.array(rows, np.int64).reshape(-1, 3)


def _ranges(taken: NDArray[np.int64], exact: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the beginnings of the used ranges, and the positions of these ranges without gaps."""
    merged = _merge(taken, touching=True, apart=0 if exact else _APART)
    return merged[:, 0], np.cumsum(merged[:, 1]) - merged[:, 1]


def _merge(taken: NDArray[np.int64], *, touching: bool, apart: int = 0) -> NDArray[np.int64]:
    """Join ranges (address, bytes) that overlap, or, if `touching`, are at most `apart` away."""
    if not len(taken):
        return taken.reshape(-1, 2)
    taken = taken[np.argsort(taken[:, 0], kind="stable")]
    low = taken[:, 0]
    reach = np.maximum.accumulate(taken.sum(axis=1))
    new = np.ones(len(low), bool)
    new[1:] = low[1:] > reach[:-1] + apart if touching else low[1:] >= reach[:-1]
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(low)) - 1
    return np.column_stack([low[first], reach[last] - low[first]])
