"""Made-up values for memory that a script reads but no kernel has written.

Scripts should behave as with real values. Floats are finite, positive, and between 0.5 and 1.5
times their mean. The mean of small tensors decreases with each reading, like a loss. Values of
other types, and floats of one byte, are 0.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import Tensor

from pgmo.rehearsal.values.known import KnownStorages, on_host, whole

MOST = 1 << 21
"""Maximum number of elements to make up or compute. Larger tensors stay unwritten."""

_SEED = 20180713

_EVEN = 1 << 12
"""Maximum number of elements with evenly spread values. Larger tensors get random values."""

_SHARE = 2
"""Divisor: 1 / `_SHARE` of the elements of an unknown mask count as true."""


class MadeUp:
    """Source of made-up values, which counts how often they are read.

    Attributes:
        read: number of reads of made-up values, by reader.
        offloaded: storages with made-up values that only the backward pass uses.
        sizes: number of sizes that depended on made-up values, by operator and line.
    """

    def __init__(self, known: KnownStorages) -> None:
        self._known = known
        self._generator = torch.Generator().manual_seed(_SEED)
        self._readings = 0
        self._state = self._generator.get_state()
        self.read: Counter[str] = Counter()
        self.offloaded = KnownStorages()
        self.sizes: Counter[str] = Counter()

    def fill(self, tensor: Tensor, reader: str) -> bool:
        """Fill an unknown tensor with made-up values; return False above `MOST` elements."""
        if not self._fill(tensor, self._known):
            return False
        self.offloaded.forget(tensor)
        self.read[reader] += 1
        return True

    def fill_offloaded(self, tensor: Tensor) -> bool:
        """Fill an unknown tensor like `fill`, but count no read. The tensor stays unknown."""
        return tensor in self.offloaded or self._fill(tensor, self.offloaded)

    def _fill(self, tensor: Tensor, filled: KnownStorages) -> bool:
        if tensor.numel() > MOST:
            return False
        all_of_it = whole(tensor)
        if all_of_it.numel() <= MOST:
            self._write(all_of_it)
            filled.add(tensor)
        else:
            self._write(on_host(tensor))
        return True

    def note_size(self, name: str) -> None:
        """Count a size that depends on made-up or missing values."""
        self.sizes[f"{name} in {line_of_program()}"] += 1

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Run a block with another state of torch's generator, then restore the script's state."""
        before = torch.get_rng_state()
        torch.set_rng_state(self._state)
        try:
            yield
        finally:
            self._state = torch.get_rng_state()
            torch.set_rng_state(before)

    def repeated(self) -> Callable[[], AbstractContextManager[None]]:
        """Return a function whose contexts make up the same values each time."""
        first: tuple[Tensor, Tensor, int] | None = None

        @contextmanager
        def again() -> Iterator[None]:
            nonlocal first
            now = self._generator.get_state(), self._state, self._readings
            if first is None:
                first = now
                yield
                return
            self._return_to(first)
            try:
                yield
            finally:
                self._return_to(now)

        return again

    def _return_to(self, state: tuple[Tensor, Tensor, int]) -> None:
        generator, self._state, self._readings = state
        self._generator.set_state(generator)

    def _write(self, host: Tensor) -> None:
        if not host.is_floating_point() or host.element_size() == 1:
            host.view(torch.uint8).zero_()
        elif host.numel() > _EVEN:
            host.uniform_(0.5, 1.5, generator=self._generator)
        else:
            # Evenly spread, so that the mean is exact and falls with each reading.
            self._readings += 1
            level = 1 + 1 / (1 + 0.01 * self._readings)
            count = host.numel()
            order = torch.randperm(count, generator=self._generator)
            host.copy_(level * (0.5 + (order + 0.5) / count))


def share_of(count: int) -> int:
    """Return the number of elements of an unknown mask that count as true."""
    return max(1, count // _SHARE) if count else 0


def line_of_program() -> str:
    """Return the innermost line of the program itself, as "train.py:12", or "a library"."""
    frame = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if "site-packages" not in path and "/pgmo/" not in path and not path.startswith("<"):
            return f"{path.rpartition('/')[2]}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return "a library"
