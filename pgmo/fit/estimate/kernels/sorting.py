"""Sorting and scanning: what cub works in, beside keys and values.

    up to 4096 of a row       in shared memory, with the indices of one row
    one row                   cub sorts it with its indices
    fewer than 128 rows       cub sorts all of it, and then by row
    else                      cub sorts row by row
    the largest of long rows  several blocks share a row, and count its digits

Source: aten/src/ATen/native/cuda/Sort.cpp, SortStable.cu, ScanKernels.cpp and TensorTopK.cu of
PyTorch 2.11; of cub's workspaces what the stub recorded of them.
"""

from typing import Any

import torch

from pgmo.fit.estimate.kernels.rule import Kernel, Rule, rounded

_aten = torch.ops.aten
_SMALL = 4096
"""Elements of a row that are sorted in shared memory."""
_WARP = 32
"""States of blocks that a scan keeps besides."""
_ALIGNED = 256
_FULL = 128
"""Rows from which on each is sorted by itself."""
_DIGITS = 256
_INDEX = 8
"""Bytes of an index; or of a row's number and an index within."""


def radix_sort(count: int, key: int, value: int, *, bits: int, tile: int) -> int:
    """Bytes that cub's radix sort works in, of so many pairs.

    Args:
        count: of pairs.
        key: bytes of a key.
        value: bytes of a value.
        bits: of a key that are looked at, 8 in one pass.
        tile: pairs that one block takes.

    Example:
        >>> radix_sort(5000, 4, 8, bits=32, tile=5376)
        70143
    """
    passes = -(-bits // 8)
    again = rounded(count * key, _ALIGNED) + rounded(count * value, _ALIGNED) if passes > 1 else 0
    tiles = -(-count // tile) * _DIGITS * 4
    return again + tiles + passes * _DIGITS * 8 + 2 * _ALIGNED - 1


_TILES = {1: 3456, 2: 5632, 4: 5376, 8: 4608}
_TILE_OF_ROWS = 5760
"""Pairs of a block by bytes of a key, and of a row's number: recorded of Hopper."""


def _sort(kernel: Kernel, args: Any, kwargs: Any, out: Any) -> None:
    _sorted(kernel, args[0], args[1] if len(args) > 1 else kwargs.get("dim", -1), out)


def _sorted(kernel: Kernel, x: Any, dim: int, out: Any) -> None:
    ledger = kernel.ledger
    ledger.born(out)
    length = x.shape[dim] if x.dim() else 1
    count, key = x.numel(), x.element_size()
    if length <= 1 or not count:
        return
    if length <= _SMALL:
        kernel.passing(length * _INDEX)
        return
    turned = dim % x.dim() != x.dim() - 1 or not x.is_contiguous()
    copies = [ledger.take(size) for size in (count * key, count * key, count * _INDEX) if turned]
    tile, bits = _TILES.get(key, _TILES[8]), 8 * key
    rows = count // length
    if rows == 1:
        kernel.passing(count * _INDEX, radix_sort(count, key, _INDEX, bits=bits, tile=tile))
    elif rows < _FULL:
        pairs = [ledger.take(count * _INDEX) for _ in range(2)]
        kernel.passing(count * key, radix_sort(count, key, _INDEX, bits=bits, tile=tile))
        of_rows = max(1, (rows - 1).bit_length())
        kernel.passing(radix_sort(count, _INDEX, 0, bits=of_rows, tile=_TILE_OF_ROWS))
        ledger.give(*reversed(pairs))
    else:
        again = rounded(count * key, _ALIGNED) + rounded(count * _INDEX, _ALIGNED)
        kernel.passing(count * _INDEX, again + _ALIGNED - 1)
    ledger.give(*reversed(copies))


def scan(count: int, size: int = 4) -> int:
    """Bytes that cub's scan works in, of so many elements.

    Args:
        count: of elements.
        size: of one, in bytes; a state has a flag besides.

    Example:
        >>> scan(10), scan(70000), scan(500_000, 8)
        (1023, 1279, 9983)
    """
    tile, state = (1920, 8) if size <= 4 else (896, 16)
    return rounded(state * (-(-count // tile) + _WARP), _ALIGNED) + 2 * _ALIGNED - 1


def _scan(kernel: Kernel, args: Any, kwargs: Any, out: Any) -> None:
    x = args[0]
    kernel.ledger.born([out])
    if x.dim() and x.numel() == x.shape[args[1] if len(args) > 1 else kwargs["dim"]]:
        kernel.passing(scan(x.numel(), out.element_size()))


_SHARED = ((20, 20_000), (40, 10_000), (80, 8000), (199, 5000), (799, 3000), (4000, 800))
"""Rows, up to a number of them, that several blocks share from a length on."""
_SHARED_ALWAYS = 400
_THREADS = 256
_RESIDENT = 65536 // (40 * _THREADS)
"""Blocks of a multiprocessor, by the registers that a thread is taken to need."""
_ITEMS = (4, 64)
"""Elements that a thread looks at, at least and at most."""


def _topk(kernel: Kernel, args: Any, kwargs: Any, out: Any) -> None:
    x = args[0]
    kernel.ledger.born(out)
    dim = args[2] if len(args) > 2 else kwargs.get("dim", -1)
    length = x.shape[dim] if x.dim() else 1
    rows = x.numel() // length if length else 0
    least = next((size for most, size in _SHARED if rows <= most), _SHARED_ALWAYS)
    if not rows or length < least:
        return
    threads = kernel.card.multiprocessors * _RESIDENT * _THREADS
    items = min(max(-(-x.numel() // threads), _ITEMS[0]), _ITEMS[1])
    blocks = rows * -(-length // (items * _THREADS))
    size = x.element_size()
    of_rows = [size * rows, _INDEX * rows, 2 * max(4, size) * rows]
    counts = [blocks * _DIGITS * 2, rows * _DIGITS * 4, blocks * 4, blocks * 4]
    taken = [kernel.ledger.take(one) for one in (*of_rows, *counts)]
    for _ in range(2):
        kernel.passing(scan(blocks, 8))
    kernel.ledger.give(*reversed(taken))


RULES: dict[Any, Rule] = {
    _aten.sort.default: _sort,
    _aten.sort.stable: _sort,
    _aten.topk.default: _topk,
    _aten.cumsum.default: _scan,
    _aten.cumprod.default: _scan,
}
