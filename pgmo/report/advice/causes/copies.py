"""Causes: additional copies of weights, by `deepcopy`, `clone`, a second model or a checkpoint.

Reports: facebookresearch/pytext#204 (the best weights so far), bghira/SimpleTuner#517 (an average
by `clone`), NVIDIA-NeMo/RL#2484 (a reference model), karpathy/nanoGPT#236 (a loaded checkpoint),
PrimeIntellect-ai/prime-rl#2154 (a loaded checkpoint; the optimizer's state is on the host).
"""

import numpy as np
from numpy.typing import NDArray

from pgmo.report.advice.all_blocks import AllBlocks, Mask
from pgmo.report.advice.facts import Facts, Hint, cause

_TITLE = "A copy of the model on the device"

_FEWEST_PASSES = 2
"""Minimum number of backward passes in the lifetime of a weight. The copy of a batch lives through
one pass."""

_FEWEST = 8
"""Minimum number of weights of a second model or in a checkpoint."""

_DEEPCOPY = r"copy\.py:\d+ in deepcopy$"
_OF_PARAMETER = r"parameter\.py:\d+ in __deepcopy__$"
_LAYERS = (
    r"copy\.py:\d+ in _reconstruct\n(?:.*\n)*"
    r".*copy\.py:\d+ in deepcopy\n(?!.*copy\.py:).* in (?:<listcomp>|_?(?:get_)?clones?)(?:\n|$)"
)
"""Pattern of the stack of modules that are copied into a list. For example,
torch.nn.TransformerEncoder makes its layers as copies of one layer."""

_LOADED = r"serialization\.py:\d+ in (?:restore_location|persistent_load|load_tensor)$"
"""Pattern of a stack line of every tensor that torch.load allocates."""

_STEP = r" in \w*step$"
"""Pattern of a stack line of tensors that the step of an optimizer requests."""

_STATES = 2
"""Maximum number of state tensors of an optimizer per weight; Adam has two."""

_DIFFERENT = 3
"""Minimum number of different sizes among the weights of a model."""

_MOST = 4096
"""Maximum number of weights that are searched for a second model, to limit the time."""

_COVERED = 0.95
"""Minimum share of all weights' bytes that the two models have together."""


def model_copies(facts: Facts) -> Hint | None:
    """Return a hint if deep copies of a model are alive at the peak."""
    blocks = facts.blocks
    copies = blocks.by_line(_DEEPCOPY) & ~blocks.by_stack(_LAYERS)
    of_models = blocks.outlive(_FEWEST_PASSES) | blocks.by_line(_OF_PARAMETER)
    return cause(
        facts,
        _TITLE,
        copies & blocks.at_peak & of_models,
        "are deep copies, such as the best weights so far, an average or a reference model",
        "Keep the copies on the host (`.cpu()`) or in a file, and load them only for their use",
    )


def cloned_weights(facts: Facts) -> Hint | None:
    """Return a hint if clones of the weights live as long as the weights."""
    blocks = facts.blocks
    weights = _weights(blocks)
    clones = weights & blocks.by_operator(r"\.clone$")
    clones &= ~(blocks.by_line(_DEEPCOPY) | blocks.by_line(_OF_PARAMETER))
    if np.count_nonzero(clones) < _FEWEST or len(np.unique(blocks.size[clones])) < _DIFFERENT:
        return None
    if not _is_contained(blocks.size[clones], blocks.size[weights & ~clones]):
        return None
    return cause(
        facts,
        _TITLE,
        clones,
        "are clones of the weights, such as a moving average or the initial weights",
        "Keep the clones on the host (`.cpu()`), and load them only for their use",
    )


def model_without_gradients(facts: Facts) -> Hint | None:
    """Return a hint if a second model of the same sizes gets no gradients."""
    blocks = facts.blocks
    weights = blocks.in_order(_weights(blocks) & ~blocks.by_operator(r"\.clone$"))[:_MOST]
    twice = _sequence_twice(blocks.size[weights])
    if twice is None:
        return None
    second = weights[twice[1] : 2 * twice[1] - twice[0]]
    sizes = blocks.size[second]
    if len(np.unique(sizes)) < _DIFFERENT or _repeats(sizes):
        return None
    gradients = _gradients(blocks) & np.isin(blocks.size, sizes)
    if not gradients.any() or not _is_contained(blocks.size[gradients], sizes):
        return None  # Neither model gets gradients, or both do.
    without = np.zeros(len(blocks.size), np.bool_)
    without[second] = True
    return cause(
        facts,
        _TITLE,
        without,
        "are the weights of a second model of the same sizes that gets no gradients, such as a "
        "reference model or a teacher",
        "Move that model to the host between uses, or compute its outputs before training",
    )


def loaded_checkpoint(facts: Facts) -> Hint | None:
    """Return a hint if a checkpoint stays in memory after the model has copied its weights.

    Loaded tensors that an optimizer may use as its state do not count. If the optimizer's steps
    copy tensors of a size from the host, its state is there: loaded tensors of this size count.
    """
    blocks = facts.blocks
    loaded = blocks.by_line(_LOADED) & blocks.outlive(_FEWEST_PASSES)
    if np.count_nonzero(loaded) < _FEWEST or not len(blocks.passes):
        return None
    weights = blocks.by_phase("other") & ~loaded & (blocks.passes_survived >= _FEWEST_PASSES)
    if not weights.any():
        return None
    return cause(
        facts,
        "A checkpoint stays on the device",
        _unused(blocks, loaded, weights),
        "were loaded from a file, and neither model nor optimizer uses them",
        'Load the file to the host (map_location="cpu"), or delete the checkpoint '
        "(`del checkpoint`) after load_state_dict",
    )


def _weights(blocks: AllBlocks) -> Mask:
    """Return which blocks may be weights, shape (n,).

    Weights are requested before the first backward pass, outside of forward passes and optimizers.
    They live through two backward passes, or are never freed. Loaded tensors are excluded, because
    they may be an optimizer's state.
    """
    first_pass = blocks.passes[0] if len(blocks.passes) else 0
    weights = blocks.by_phase("other") & ~blocks.by_line(_LOADED) & blocks.outlive(_FEWEST_PASSES)
    return weights & (blocks.start < first_pass)


def _gradients(blocks: AllBlocks) -> Mask:
    """Return which blocks the second backward pass allocates and does not free, shape (n,)."""
    if len(blocks.passes) < _FEWEST_PASSES:
        return np.zeros(len(blocks.size), np.bool_)
    begin = blocks.passes[1]
    backward = blocks.by_phase("backward")
    other = np.unique(blocks.start[~backward & (blocks.start > begin)])
    end = other[0] if len(other) else blocks.ticks
    own_pass: Mask = backward & (begin <= blocks.start) & (blocks.start < end)
    return own_pass & (blocks.end >= end)


def _sequence_twice(sizes: NDArray[np.int64]) -> tuple[int, int] | None:
    """Return the indices at which the longest repeated sequence of sizes begins and repeats.

    The repetition directly follows the sequence, and both together have almost all bytes. Return
    None if there is no such repetition.
    """
    bytes_before = np.append(0, np.cumsum(sizes))
    enough = _COVERED * bytes_before[-1]
    for length in range(len(sizes) // 2, _FEWEST - 1, -1):
        covers = bytes_before[2 * length :] - bytes_before[: -2 * length] >= enough
        if not covers.any():
            return None  # Shorter sequences have an even smaller share.
        unequal = np.append(0, np.cumsum(sizes[:-length] != sizes[length:]))
        begins = np.flatnonzero(covers & (unequal[length:] == unequal[:-length]))
        if len(begins):
            return int(begins[0]), int(begins[0]) + length
    return None


def _is_contained(part: NDArray[np.int64], whole: NDArray[np.int64]) -> bool:
    """Return whether `whole` has each size of `part` at least as often as `part`."""
    sizes, counts = np.unique(part, return_counts=True)
    return all(
        np.count_nonzero(whole == size) >= count
        for size, count in zip(sizes.tolist(), counts.tolist(), strict=True)
    )


def _repeats(sizes: NDArray[np.int64]) -> bool:
    """Return whether the sizes are repetitions of a shorter sequence, as for equal layers."""
    return any(
        len(sizes) % period == 0 and np.array_equal(sizes[period:], sizes[:-period])
        for period in range(1, len(sizes) // 2 + 1)
    )


def _unused(blocks: AllBlocks, loaded: Mask, weights: Mask) -> Mask:
    """Return loaded blocks that neither model nor optimizer can use, as a mask of shape (n,).

    For each size, there are at most as many as weights. An optimizer may use `_STATES` loaded
    blocks per weight, unless it has allocated its state or copies the state from the host.
    """
    own_state = blocks.by_phase("optimizer") & blocks.outlive(_FEWEST_PASSES)
    from_host, steps = _from_host(blocks), max(1, len(blocks.passes) - 1)
    unused = np.zeros(len(loaded), np.bool_)
    for size in np.unique(blocks.size[loaded]).tolist():
        alike = blocks.size == size
        count = np.count_nonzero(weights & alike)
        copied = np.count_nonzero(from_host & alike) >= steps * count > 0
        used = 0 if copied or (own_state & alike).any() else _STATES * count
        rows = np.flatnonzero(loaded & alike)
        unused[rows[: min(count, max(0, len(rows) - used))]] = True
    return unused


def _from_host(blocks: AllBlocks) -> Mask:
    """Return which temporaries of optimizer steps may be copies from the host, shape (n,).

    A copy may be a cast on the device if the previous request has half or twice its size and is
    still alive. Such copies are excluded.
    """
    found = blocks.by_line(_STEP) & blocks.by_operator(r"\._to_copy$") & ~blocks.outlive(1)
    found &= blocks.start >= blocks.passes.min()
    order = np.argsort(blocks.start, kind="stable")
    rows, before = order[1:], order[:-1]
    ratio = blocks.size[rows] / np.maximum(1, blocks.size[before])
    cast = np.isin(ratio, (0.5, 2.0)) & (blocks.end[before] > blocks.start[rows])
    found[rows[cast]] = False
    return found
