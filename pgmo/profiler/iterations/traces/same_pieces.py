"""Groups of pieces of a trace with the same requests. Marks divide a trace into pieces."""

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.iterations.lifetimes import Steady
from pgmo.profiler.iterations.request_pairs import UNPAIRED, align
from pgmo.profiler.recording import Iteration


def same_pieces(pieces: list[Iteration]) -> Steady | None:
    """Return the largest group of equal pieces, with partial pieces; None without two equal pieces.

    The last equal piece is the reference.
    """
    groups: dict[bytes, list[int]] = {}
    for piece in pieces:
        if len(piece):
            groups.setdefault(piece.size.tobytes() + piece.stream.tobytes(), []).append(piece.index)
    members = max(groups.values(), key=lambda m: (len(m) * len(pieces[m[0]]), m[-1]), default=[])
    if len(members) < 2:
        return None
    return _steady(pieces, members, pieces[members[-1]])


def steady_of(pieces: list[Iteration], reference: Iteration) -> Steady:
    """Return the group of a piece: the pieces equal to it, or else the piece and the next one."""
    members = [piece.index for piece in pieces if piece.same_requests(reference)]
    if len(members) > 1:
        return _steady(pieces, members, reference)
    rows = {reference.index: np.arange(len(reference))}
    following = next((piece for piece in pieces[reference.index + 1 :] if len(piece)), None)
    if following is not None:
        rows[following.index] = align(reference, following)
    return Steady(
        kind="none",
        reference=reference.index,
        rows=rows,
        varying=np.zeros(len(reference), np.bool_),
        followers=len(pieces) - 1 - reference.index,
        explanation="no other iteration issues the same requests",
    )


def _steady(pieces: list[Iteration], members: list[int], reference: Iteration) -> Steady:
    ticks = len(reference)
    rows = {index: np.arange(ticks) for index in members}
    head, tail = pieces[0], pieces[-1]
    end, start = _as_end(head, reference), _as_start(tail, reference)
    # The first piece, for example one that allocates optimizer state, may end like the reference by
    # chance. A chance match does not show how long blocks live.
    if (end == UNPAIRED).sum() > max(0, len(head) - ticks):
        end = np.full(len(head), UNPAIRED)
    for piece, partial in ((head, end), (tail, start)):
        if piece.index not in rows and (partial != UNPAIRED).any():
            rows[piece.index] = partial
    return Steady(
        kind="exact",
        reference=reference.index,
        rows=rows,
        varying=np.zeros(ticks, np.bool_),
        followers=len(pieces) - 1 - reference.index,
        explanation=f"{len(members)} iterations issue the same {ticks} requests",
    )


def _as_start(piece: Iteration, reference: Iteration) -> NDArray[np.int64]:
    """Return the reference's request for each request of a piece whose end is missing, or -1."""
    both = min(len(piece), len(reference))
    differ = np.flatnonzero(
        (piece.size[:both] != reference.size[:both])
        | (piece.stream[:both] != reference.stream[:both])
    )
    rows = np.full(len(piece), UNPAIRED, np.int64)
    alike = int(differ[0]) if differ.size else both
    rows[:alike] = np.arange(alike)
    return rows


def _as_end(piece: Iteration, reference: Iteration) -> NDArray[np.int64]:
    """Return the reference's request for each request of a piece whose start is missing, or -1."""
    backwards = [one.part(np.arange(len(one))[::-1]) for one in (piece, reference)]
    rows = _as_start(*backwards)[::-1]
    return np.where(rows == UNPAIRED, UNPAIRED, len(reference) - 1 - rows)
