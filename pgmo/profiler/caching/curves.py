"""Results of a simulation of the caching allocator."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgmo import _core
from pgmo.columns import as_column
from pgmo.errors import ProfileError
from pgmo.units import format_bytes


@dataclass(frozen=True, eq=False, repr=False)
class Reserved:
    """Memory that the caching allocator reserves, and how much of it is in use.

    Args:
        reserved: bytes reserved from the driver after each request, shape (ticks,), read-only. For
            a profile, these are the bytes in the last simulated iteration.
        active: bytes of blocks in use after each request, including rounding, shape (ticks,).
        address: address of each row of a profile, or of each request of a trace; 0 for blocks
            after a failure.
        peak_reserved: largest number of reserved bytes in the whole simulation.
        peak_active: largest number of bytes in use in the whole simulation.
        fragmentation: unused share of the reserved bytes when `reserved` peaks; the smallest share
            if there are several peaks.
        retries: number of times that cached memory was released to serve a request.
        failed: index of the request that ran out of memory and ended the simulation; or None.
    """

    reserved: NDArray[np.int64]
    active: NDArray[np.int64]
    address: NDArray[np.int64]
    peak_reserved: int
    peak_active: int
    fragmentation: float
    retries: int = 0
    failed: int | None = None

    def __repr__(self) -> str:
        failed = "" if self.failed is None else f", out of memory at request {self.failed}"
        return (
            f"Reserved({format_bytes(self.peak_reserved)} reserved, "
            f"{format_bytes(self.peak_active)} active, {self.fragmentation:.1%} fragmented, "
            f"{self.retries} retries{failed})"
        )

    def __post_init__(self) -> None:
        for name in ("reserved", "active", "address"):
            column = as_column(name, getattr(self, name), np.dtype(np.int64), ProfileError)
            object.__setattr__(self, name, column)


class Curves:
    """Collector of a simulation's figures."""

    def __init__(self, allocator: _core.ModelledAllocator) -> None:
        self._allocator = allocator
        self._reserved: list[int] = []
        self._active: list[int] = []
        self._peak = (0, 0)
        self._peak_active = 0

    def begin(self) -> None:
        """Begin an iteration. Curves are of the last iteration, and peaks of all iterations."""
        self._count()
        self._reserved, self._active = [], []

    def served(self) -> None:
        """Record the allocator's figures after a request."""
        self._reserved.append(self._allocator.reserved)
        self._active.append(self._allocator.active)

    def result(self, ticks: int, address: list[int], failed: int | None = None) -> Reserved:
        """Return the figures. After a failure, the curves keep their last value."""
        self._count()
        missing = ticks - len(self._reserved)
        reserved, active = self._peak
        return Reserved(
            reserved=np.array(self._reserved + self._reserved[-1:] * missing, np.int64),
            active=np.array(self._active + self._active[-1:] * missing, np.int64),
            address=np.array(address, np.int64),
            peak_reserved=reserved,
            peak_active=self._peak_active,
            fragmentation=1 - active / reserved if reserved else 0.0,
            retries=self._allocator.retries,
            failed=failed,
        )

    def _count(self) -> None:
        pairs = zip(self._reserved, self._active, strict=True)
        self._peak = max(self._peak, max(pairs, default=self._peak))
        self._peak_active = max(self._peak_active, max(self._active, default=0))
