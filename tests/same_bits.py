"""Comparison of results bit for bit, and the number of threads (tests/README.md)."""

import hashlib
import os
import sys
from collections.abc import Callable, Iterable

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OMP_DYNAMIC": "FALSE", "MKL_DYNAMIC": "FALSE"}
"""Environment in which plain PyTorch gives the same bits in each run on the CPU."""


def use_one_thread() -> None:
    """Set `ONE_THREAD` for this process and all processes that it starts."""
    os.environ.update(ONE_THREAD)
    if "torch" in sys.modules:  # torch reads the environment only when it is imported
        sys.modules["torch"].set_num_threads(1)


def bits(values: Iterable[object]) -> str:
    """Return a hash of all bits of tensors and numbers."""
    import torch

    total = hashlib.sha256()
    for value in values:
        if isinstance(value, torch.Tensor):
            flat = value.detach().cpu().contiguous().reshape(-1)
            total.update(f"{value.dtype} {tuple(value.shape)}".encode())
            total.update(flat.view(torch.uint8).numpy().tobytes())
        else:
            total.update(repr(value).encode())
    return total.hexdigest()


def assert_same_bits(plain: object, other: object, repeat_plain: Callable[[], object]) -> None:
    """Compare a result with that of plain PyTorch.

    On a difference, plain PyTorch is repeated. If its two results differ, the test is skipped.

    Args:
        plain: result without pgmo.
        other: result with pgmo.
        repeat_plain: computes the result without pgmo once more.
    """
    if other != plain and repeat_plain() != plain:
        import pytest  # not above, because scripts import this module, too

        pytest.skip("plain PyTorch does not repeat itself here")
    assert other == plain
