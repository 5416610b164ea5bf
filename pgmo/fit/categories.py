"""Categories of a history's blocks: parameter, gradient, optimizer state, workspace, activation.

    history   ALLOC a ... ALLOC g ... MARK ... FREE g ... ALLOC g' ... MARK     end
    known     parameters {a}, states {s}     gradients at mark 0 {g}, at mark 1 {g'}

Addresses are reused. So a gradient is the block alive at a recorded address at the mark of the
step. Parameters and states are the blocks alive at recorded addresses when the history ends.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.trace import Event, Trace
from pgmo.profiler.trace_blocks import NOT_FREED

NAMES = ("activations", "parameters", "gradients", "optimizer_state", "workspaces")
"""The categories; a block's category is an index into them."""

_ACTIVATION, PARAMETER, GRADIENT, STATE, _WORKSPACE = range(5)

_LIBRARY = 64 << 20
"""Largest block, in bytes, that counts as a library's own workspace, such as cuBLAS's."""


def categorise(trace: Trace, known: dict[str, Any]) -> NDArray[np.int8]:
    """Return the category of each block of a trace, as an index into `NAMES`, shape (n,).

    Args:
        trace: the history of one card.
        known: record of the observer. `parameters` and `states`: addresses. `marked`: for each step
            the number of its mark and the addresses of its gradients.
    """
    found = np.zeros(len(trace.blocks), np.int8)
    end = len(trace)
    _mark_workspaces(found, trace)
    marks = np.flatnonzero(trace.kind == Event.MARK)
    for one in known.get("marked", ()):
        row = int(marks[one["mark"]]) if one["mark"] < len(marks) else end
        found[_alive_at(trace, row, one["gradients"])] = GRADIENT
    found[_alive_at(trace, end, known.get("states", ()))] = STATE
    found[_alive_at(trace, end, known.get("parameters", ()))] = PARAMETER
    return found


def dispensable(trace: Trace, known: dict[str, Any]) -> NDArray[np.int64]:
    """Return for each block the number of the convolution whose workspace it is, or -1, shape (n,).

    Workspaces of convolutions are dispensable: if one does not fit, PyTorch chooses another
    algorithm for the convolution. The observer has recorded `convolutions`: address, bytes and
    convolution of each workspace, in the order of use.
    """
    blocks = trace.blocks
    found = np.full(len(blocks), -1, np.int64)
    address, size = trace.address[blocks.row].tolist(), blocks.size.tolist()
    at = 0
    for where, least, number in known.get("convolutions", ()):
        # Blocks are in the order of use, and their sizes may be rounded up.
        later = at
        while later < len(blocks) and not (address[later] == where and size[later] >= least):
            later += 1
        if later < len(blocks):
            found[later] = number
            at = later + 1
    return found


def step_begins(trace: Trace, known: dict[str, Any]) -> tuple[int, int] | None:
    """Return the ticks at which the second and the third step begin; None without three steps.

    The observer has recorded `ended`, the numbers of the marks at the ends of steps.
    """
    ended = known.get("ended", ())
    marks = np.flatnonzero(trace.kind == Event.MARK)
    if len(ended) < 3 or ended[1] >= len(marks):
        return None
    second, third = (int(np.searchsorted(trace.blocks.row, marks[one])) for one in ended[:2])
    return second, third


def _mark_workspaces(found: NDArray[np.int8], trace: Trace) -> None:
    """Mark the workspaces of kernels and libraries."""
    blocks = trace.blocks
    served = np.cumsum(trace.kind == Event.ALLOC)
    freed = blocks.freed != NOT_FREED
    life = np.where(freed, served[blocks.freed] - served[blocks.row], 0)
    found[freed & (life == 0)] = _WORKSPACE  # freed before the next request
    first = np.flatnonzero(trace.kind == Event.MARK)
    if len(first):
        # Libraries allocate workspaces in the first iteration and never free them. `categorise`
        # later gives other categories to the blocks of the model and of its optimizer.
        small = blocks.size <= _LIBRARY
        found[~freed & small & (blocks.row < first[0])] = _WORKSPACE


def _alive_at(trace: Trace, row: int, addresses: Any) -> NDArray[np.intp]:
    """Return the blocks alive at a row of the trace that contain one of the addresses."""
    blocks = trace.blocks
    never = blocks.reusable == NOT_FREED
    alive = np.flatnonzero((blocks.row < row) & (never | (blocks.reusable >= row)))
    begins = trace.address[blocks.row[alive]]
    order = np.argsort(begins, kind="stable")
    alive, begins = alive[order], begins[order]
    wanted = np.asarray(sorted(addresses), np.int64)
    at = np.searchsorted(begins, wanted, side="right") - 1
    inside = at >= 0
    inside[inside] &= wanted[inside] < begins[at[inside]] + blocks.size[alive[at[inside]]]
    result: NDArray[np.intp] = np.unique(alive[at[inside]])
    return result
