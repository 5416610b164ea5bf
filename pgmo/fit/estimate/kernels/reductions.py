"""Reductions that several thread blocks share: they exchange partial results in global memory.

Source of the rules: aten/src/ATen/native/cuda/Reduce.cuh of PyTorch 2.11, and TensorIterator's
order of dimensions.

    input (rows, columns), sum over rows        few columns, many rows: each column's rows are
    buffer: one partial sum for each block      divided among blocks, and a counter tells the last
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pgmo.cards.card import Card

_THREADS = 512
_WARP = 32
_LEAST, _MOST = 16, 256
"""Values that a thread reduces before its work is divided further."""


@dataclass(frozen=True)
class Dimension:
    """One dimension of the input: elements, stride in elements, and whether it is reduced."""

    size: int
    stride: int
    reduced: bool


def shared_buffers(
    shape: Sequence[int],
    strides: Sequence[int],
    reduced: Sequence[int],
    *,
    partial: int,
    card: Card,
    values: int = 4,
) -> tuple[int, int] | None:
    """Bytes of partial results and of counters; None where each result has one block.

    Args:
        shape: of the input.
        strides: of the input, in elements.
        reduced: numbers of the dimensions that are reduced, from 0.
        partial: bytes of one partial result.
        card: its multiprocessors count.
        values: how many each thread loads at once.

    Example:
        >>> from pgmo.cards.catalog import find
        >>> shared_buffers((1024, 768), (768, 1), (0,), partial=4, card=find("H100"))
        (6291456, 24)
    """
    dims = _coalesced(shape, strides, frozenset(reduced))
    inner = [one for one in dims if one.reduced]
    outer = [one for one in dims if not one.reduced]
    outputs, inputs = _product(outer), _product(inner)
    if not inputs or not outputs:
        return None
    fastest = not outer or (bool(inner) and inner[0].stride < outer[0].stride)
    leading = (inner if fastest else outer)[:1]
    width, height = (inputs, outputs) if fastest else (outputs, inputs)
    vector = 1
    if leading and leading[0].stride == 1:
        if fastest and width > 128 and len(inner) == 1 and values >= 4:
            width //= 4
        elif not fastest:
            vector = _vector(dims, outer[0])
            width //= vector
    block_width, block_height = _block(width, height, _THREADS // vector)
    step_input = step_output = 1
    if fastest:
        step_input = block_width
    else:
        step_output = block_width
    each = -(-inputs // step_input)
    if not (each >= block_height * _LEAST or each >= _MOST):
        return None
    step_input *= block_height
    each = -(-inputs // step_input)
    grid = -(-(outputs // vector) // step_output)
    threads = block_width * block_height
    target = card.multiprocessors * (resident_threads(card) // threads)
    if each < _MOST or grid > target:
        return None
    blocks = max(min(-(-target // grid), -(-each // _LEAST)), -(-each // _MOST))
    if blocks <= 1:
        return None
    size = partial * outputs * blocks
    return (size if fastest else size * block_width * vector), 4 * grid


def resident_threads(card: Card) -> int:
    """Threads that a multiprocessor keeps at once, by compute capability.

    Source: the CUDA programming guide, technical specifications by compute capability.
    """
    if card.capability == (7, 5):
        return 1024
    return 1536 if card.capability in ((8, 6), (8, 7), (8, 9), (12, 0), (12, 1)) else 2048


def _block(width: int, height: int, most: int) -> tuple[int, int]:
    wide = min(_power_of_two(width), most)
    high = min(_power_of_two(height), most)
    first = min(wide, _WARP)
    rows = min(high, most // first)
    return min(wide, most // rows), rows


def _power_of_two(count: int) -> int:
    """The largest one that is not above the count."""
    return 1 << max(0, count.bit_length() - 1)


def _vector(dims: list[Dimension], leading: Dimension) -> int:
    vector = 4
    for number in (leading.size, *(one.stride for one in dims if one is not leading)):
        while number % vector:
            vector //= 2
    return vector


def _coalesced(
    shape: Sequence[int], strides: Sequence[int], reduced: frozenset[int]
) -> list[Dimension]:
    """Dimensions from the fastest on, the reduced ones first, neighbours joined."""
    given = [
        Dimension(size, stride, at in reduced)
        for at, (size, stride) in enumerate(zip(shape, strides, strict=True))
    ]
    inner = sorted(
        (one for one in given if one.reduced and one.size != 1), key=lambda one: one.stride
    )
    outer = [one for one in reversed(given) if not one.reduced and one.size != 1]
    found: list[Dimension] = []
    for one in (*inner, *outer):
        last = found[-1] if found else None
        if (
            last is not None
            and last.reduced is one.reduced
            and last.size * last.stride == one.stride
        ):
            found[-1] = Dimension(last.size * one.size, last.stride, last.reduced)
        else:
            found.append(one)
    return found


def _product(dims: list[Dimension]) -> int:
    count = 1
    for one in dims:
        count *= one.size
    return count
