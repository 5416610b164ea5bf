"""Causes in the training step: gradients, autograd graphs and the optimizer.

Reports: facebookresearch/detectron2#4905 (a late zero_grad), MIC-DKFZ/nnUNet#1630 (gradients that
are filled with zeros), GBLin5566/toward-controlled-generation-of-text-pytorch#9 (a retained graph),
isds-neu/PeRCNN#3 (growing graphs), pytorch/pytorch#97712 (a step of all parameters at once),
meta-pytorch/torchtune#389 (Adam's state in float32).
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pgmo.report.advice.all_blocks import AllBlocks, Mask
from pgmo.report.advice.facts import Facts, Hint, cause, hint_of_fix
from pgmo.units import format_bytes

_OLD_GRADIENTS = "Gradients of the last iteration at the peak"

_FEWEST_STEPS = 3
"""Minimum number of optimizer steps in the lifetime of a gradient that is filled with zeros."""

_FREED_TOGETHER = 8
"""Minimum number of a graph's blocks that are freed together, without a request in between."""

_ORIGINS_OF_GRAPH = 4
"""Minimum number of different origins of the blocks of a graph."""

_FEWEST_GRAPHS = 2
"""Minimum number of retained graphs in a recording. With fewer graphs, there is no hint."""

_FEWEST_PASSES = 6
"""Minimum number of backward passes in a recording of growing graphs."""

_SHARE_OF_PASSES = 2 / 3
"""Minimum share of the passes in which an origin allocates a block that is never freed."""

_GROWING_ORIGINS = 2
"""Minimum number of origins that grow. A single origin is a list of results, not a graph."""

_OF_ONE_PARAMETER = 2
"""Number of temporaries of one parameter that are alive at once."""

_DOMINATES = 1 / 3
"""Minimum share of Adam's state in the peak. Below it, other advice helps more."""

_KNOWN = 0.5
"""Minimum share of Adam's state whose weights are known to be in float32."""

_SMALLEST_STATE = 4096 * 4
"""Minimum bytes of a state tensor. 8-bit optimizers keep smaller tensors in float32."""

_LEFT_OF_STATE = (1 + 4 / 256) / 4
"""Ratio of 8-bit state to float32 state. Each element takes a byte, and 256 elements share a
float32 scale."""

_FLOAT8 = r"float8|fp8"
"""Pattern of file names in the stack of a cast to float8, which halves bfloat16 weights."""


def late_zero_grad(facts: Facts) -> Hint | None:
    """Return a hint if gradients live in the next forward pass, but not the next backward pass."""
    blocks = facts.blocks
    gradients = blocks.by_phase("backward")
    forward = np.unique(blocks.start[blocks.by_phase("forward")])
    backward = np.unique(blocks.start[gradients])
    next_forward = _next(forward, blocks.start, blocks.ticks)
    next_backward = _next(backward, next_forward, blocks.ticks)
    # Accumulated gradients stay alive in the next backward pass.
    late = gradients & (next_forward < blocks.end) & (blocks.end <= next_backward) & ~blocks.stays
    return cause(
        facts,
        _OLD_GRADIENTS,
        late,
        "are gradients of the previous iteration",
        "Call optimizer.zero_grad(set_to_none=True) right after optimizer.step(), not after the "
        "next forward pass",
        end=np.where(late, next_forward, blocks.end),
    )


def _next(ticks: np.ndarray, after: np.ndarray, last: int) -> np.ndarray:
    """Return, for each value of `after`, the first of `ticks` at or after this value, or `last`."""
    return np.append(ticks, last)[np.searchsorted(ticks, after)]


def zeroed_gradients(facts: Facts) -> Hint | None:
    """Return a hint if gradients outlive several optimizer steps.

    With set_to_none=True, the next backward pass would allocate each gradient again, as the first
    backward pass did.
    """
    blocks = facts.blocks
    if "Optimizer.step#" not in facts.profile.meta.notes.get("marks", ""):
        return None  # Without marks, gradients may be accumulated over any number of iterations.
    first = np.searchsorted(blocks.marks, blocks.start, "right")
    steps = np.searchsorted(blocks.marks, blocks.end, "right") - first
    weights = blocks.by_phase("other") & (blocks.passes_survived >= _FEWEST_STEPS)
    gradients = blocks.by_phase("backward") & np.isin(blocks.size, blocks.size[weights])
    kept = np.flatnonzero(gradients & (steps >= _FEWEST_STEPS))
    if not len(kept) or not len(blocks.passes):
        return None
    size, start, end = [], [], []
    own_pass = blocks.passes[np.searchsorted(blocks.passes, blocks.start[kept], "right") - 1]
    offset = blocks.start[kept] - own_pass
    for at, mark in enumerate(blocks.marks.tolist()):
        alive = (first[kept] <= at) & (blocks.end[kept] > mark)
        following = blocks.passes[np.searchsorted(blocks.passes, mark) :][:1]
        # A backward pass adds a temporary to the gradient. If the gradient is None, the temporary
        # becomes the gradient.
        again = following[0] + offset[alive] + 1 if len(following) else blocks.ticks
        until = np.minimum(again, blocks.end[kept][alive])
        size.append(blocks.size[kept][alive])
        start.append(np.full(np.count_nonzero(alive), mark))
        end.append(np.maximum(until, mark))
    held = format_bytes(int(blocks.size[kept].sum()))
    return hint_of_fix(
        facts,
        _OLD_GRADIENTS,
        f"{held} of gradients outlive {_FEWEST_STEPS} optimizer steps or more: they are filled "
        "with zeros, not freed. Call zero_grad(set_to_none=True) right after optimizer.step()",
        blocks.saving_within(*(np.concatenate(one) for one in (size, start, end))),
    )


def growing_graphs(facts: Facts) -> Hint | None:
    """Return a hint if parts of most forward passes are never freed."""
    blocks = facts.blocks
    number = np.searchsorted(blocks.passes, blocks.start)  # passes before each block
    stays = blocks.by_phase("forward") & blocks.stays & (blocks.tag >= 0)
    count = len(blocks.passes)
    if count < _FEWEST_PASSES or facts.explanation.leaks.found:
        return None
    pairs = np.unique(np.stack([blocks.tag[stays], number[stays]]), axis=1)
    tags, passes = np.unique(pairs[0], return_counts=True)
    growing = stays & np.isin(blocks.tag, tags[passes >= _SHARE_OF_PASSES * count])
    if len(np.unique(blocks.tag[growing])) < _GROWING_ORIGINS:
        return None
    return cause(
        facts,
        "Memory leaks",
        growing & (number < count - 1),
        f"were allocated by forward passes before the last of {count}, and never freed",
        "Detach the state that the next iteration continues from (`state = state.detach()`), and "
        "detach the outputs that you keep",
    )


def retained_graph(facts: Facts) -> Hint | None:
    """Return a hint if graphs outlive their backward pass and are alive in the next forward pass.

    A retained graph is freed as a whole, when its loss is assigned again. With several batches in a
    pipeline, a backward pass frees each graph block by block.
    """
    blocks = facts.blocks
    kept = blocks.by_phase("forward") & ~blocks.stays & (blocks.passes_survived == 1)
    starts = np.sort(blocks.start[kept])
    forward = np.sort(blocks.start[blocks.by_phase("forward")])
    graphs = np.zeros(len(kept), np.bool_)
    end = blocks.end.copy()
    found = 0
    for graph in _freed_together(blocks, np.flatnonzero(kept)):
        own, at = blocks.start[graph], int(blocks.end[graph[0]])
        begin, over, is_last = _next_pass(blocks, forward, int(own.max()))
        if len(np.unique(blocks.tag[graph])) < _ORIGINS_OF_GRAPH or (over >= at and not is_last):
            continue
        # A backward pass without retain_graph frees most blocks at different times.
        same_pass = np.searchsorted(starts, own.max(), "right") - np.searchsorted(starts, own.min())
        if len(graph) < same_pass // 2:
            continue
        graphs[graph] = True
        # The backward pass would free the blocks in reverse order of their requests.
        late = (own - own.min()) / max(1, own.max() - own.min())
        end[graph] = np.asarray(begin + (1 - late) * (over - begin), np.int64)
        found += not is_last
    if found < _FEWEST_GRAPHS:
        return None
    return cause(
        facts,
        "A graph outlives its backward pass",
        graphs,
        "belong to a graph whose backward pass is over",
        "Call backward() without retain_graph=True or create_graph=True, or delete the loss "
        "(`del loss`) before the next forward pass",
        end=end,
    )


def _freed_together(blocks: AllBlocks, rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield groups of at least `_FREED_TOGETHER` blocks that are freed together, earliest first."""
    rows = rows[np.argsort(blocks.end[rows], kind="stable")]
    edges = np.flatnonzero(np.diff(blocks.end[rows])) + 1
    yield from (group for group in np.split(rows, edges) if len(group) >= _FREED_TOGETHER)


def _next_pass(
    blocks: AllBlocks, forward: NDArray[np.int64], request: int
) -> tuple[int, int, bool]:
    """Return begin and end of the next backward pass, in requests, and whether it is the last.

    A pass ends at the next forward request. The last pass ends at the last backward request.
    """
    begin = int(blocks.passes[np.searchsorted(blocks.passes, request, "right")])
    following = int(np.searchsorted(forward, begin, "right"))
    if following == len(forward):
        return begin, max(begin, int(blocks.start[blocks.by_phase("backward")].max())), True
    return begin, int(forward[following]), False


def optimizer_temporaries(facts: Facts) -> Hint | None:
    """Return a hint if the temporaries of an optimizer's step raise the peak.

    The fix is only for torch's optimizers: others have neither `fused` nor `foreach`.
    """
    blocks = facts.blocks
    in_torch = blocks.by_line(r"/?\w+\.py:\d+ in _multi_tensor_")
    of_all_parameters = in_torch | (blocks.by_operator(r"\._foreach_") & ~blocks.by_line(""))
    state = blocks.stays | ~blocks.without("forward")
    temporaries = blocks.by_phase("optimizer") & of_all_parameters & ~state
    sizes = blocks.size[temporaries & blocks.at_peak]
    # Stepping one parameter at a time needs a few temporaries of that parameter's size.
    left = min(1.0, _OF_ONE_PARAMETER * sizes.max(initial=0) / max(1, sizes.sum()))
    return cause(
        facts,
        "The optimizer's temporaries make the peak",
        temporaries,
        "are requested and freed within optimizer.step()",
        "Pass fused=True (Adam, AdamW, SGD, Adagrad), which needs no temporaries, or "
        "foreach=False, which needs temporaries of one parameter at a time",
        left=left,
    )


def wide_state(facts: Facts) -> Hint | None:
    """Return a hint if Adam's state at the peak is in float32, and at least a third of the peak.

    A recording has no data types. Weights count as float32 if a forward pass casts them to half the
    size, as autocast does. Adam's state has the data type of its weights.
    """
    blocks = facts.blocks
    state = _of_adam(blocks)
    casts = blocks.by_phase("forward") & blocks.by_operator(r"\._to_copy$")
    halves = blocks.size[casts & ~blocks.by_line(_FLOAT8)]
    known = int(blocks.size[state & np.isin(blocks.size, 2 * halves)].sum())
    held = int(blocks.size[state & blocks.at_peak].sum())
    if known < _KNOWN * blocks.size[state].sum() or held < _DOMINATES * blocks.peak:
        return None
    return hint_of_fix(
        facts,
        "Much of the memory is optimizer state",
        f"{format_bytes(held)} of the peak of {format_bytes(blocks.peak)} are Adam's state in "
        "float32. An optimizer with 8-bit state (AdamW8bit of bitsandbytes or torchao, "
        'optim="adamw_8bit" in transformers) needs about a quarter, and changes results slightly',
        blocks.saving(state, _LEFT_OF_STATE),
        changes_results=True,
    )


def _of_adam(blocks: AllBlocks) -> Mask:
    """Return which blocks are Adam's state, shape (n,); none if another optimizer may own it.

    For each weight, Adam requests two tensors in succession, so Adam's state is larger than the
    weights. SGD with momentum requests one tensor for each weight. If all weights have the same
    size, momentum tensors also form pairs, but these are not larger than the weights.
    """
    long = blocks.outlive(1)
    state = blocks.by_phase("optimizer") & long & (blocks.size >= _SMALLEST_STATE)
    sizes = blocks.size[blocks.in_order(state)]
    weights = blocks.by_phase("other") & long & np.isin(blocks.size, sizes)
    is_adam = len(sizes) % 2 == 0 and np.array_equal(sizes[::2], sizes[1::2])
    return state & (is_adam and sizes.sum() > blocks.size[weights].sum())
