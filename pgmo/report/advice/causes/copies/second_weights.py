"""Causes: weights are on the device twice, by `clone` or as a second model.

Reports: bghira/SimpleTuner#517 (an average by `clone`), NVIDIA-NeMo/RL#2484 (a reference model).
"""

import numpy as np
from numpy.typing import NDArray

from pgmo.report.advice.all_blocks import AllBlocks, Mask
from pgmo.report.advice.causes.copies.loaded_checkpoint import LOADED
from pgmo.report.advice.facts import Facts, Hint, cause

_TITLE = "A copy of the model on the device"

_FEWEST_PASSES = 2
"""Minimum number of backward passes in the lifetime of a weight."""

_FEWEST = 8
"""Minimum number of weights of a model."""

_DIFFERENT = 3
"""Minimum number of different sizes among the weights of a model."""

_MOST = 4096
"""Maximum number of weights to search for a second model, to limit the time."""

_COVERED = 0.95
"""Minimum share of all weights' bytes that the two models have together."""


def cloned_weights(facts: Facts) -> Hint | None:
    """Return a hint if clones of the weights live as long as the weights."""
    blocks = facts.blocks
    weights = _long_lived(blocks)
    clones = weights & blocks.by_operator(r"\.clone$")
    clones &= ~blocks.by_line(r"(?:copy\.py:\d+ in deepcopy|parameter\.py:\d+ in __deepcopy__)$")
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
    weights = np.flatnonzero(_long_lived(blocks) & ~blocks.by_operator(r"\.clone$"))
    weights = weights[np.argsort(blocks.start[weights], kind="stable")][:_MOST]
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


def _long_lived(blocks: AllBlocks) -> Mask:
    """Return which blocks may be weights, shape (n,).

    Weights are requested before the first backward pass, outside of forward passes and optimizers,
    and outlive passes. Loaded tensors are excluded, because they may be an optimizer's state.
    """
    long: Mask = blocks.by_phase("other") & ~blocks.by_line(LOADED)
    long &= blocks.stays | (blocks.passes_survived >= _FEWEST_PASSES)
    long &= blocks.start < blocks.passes.min(initial=blocks.ticks)
    return long if len(blocks.passes) else np.zeros_like(long)


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


def _is_contained(part: NDArray[np.int64], whole: NDArray[np.int64]) -> bool:
    """Return whether each size occurs at least as often in the whole as in the part."""
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
