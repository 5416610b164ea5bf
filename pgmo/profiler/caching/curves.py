"""What comes out of a simulation of the caching allocator."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgmo import _core
from pgmo.columns import as_column
from pgmo.errors import ProfileError
from pgmo.units import format_bytes


@dataclass(frozen=True, eq=False, repr=False)
class Reserved:
    """What the caching allocator takes from the card, and how much of it is in use.

    Args:
        reserved: bytes taken from the driver after each request, shape (ticks,), read-only: of the
            last iteration that was simulated, or of all of a trace.
        active: bytes of blocks in use, with their rounding, likewise.
        address: where each block is placed: of a profile's rows, shape (n,), or of a trace's
            requests, shape (ticks,); 0 of those beyond the failure.
        peak_reserved: largest number of bytes taken from the driver, in all that was simulated.
        peak_active: largest number of bytes in use, likewise.
        fragmentation: part of the reserved bytes that is not in use at the peak of `reserved`; of
            all moments at the peak, when most is in use.
        retries: how often cached memory had to be given back to serve a request.
        failed: index of the request that ran out of memory, where the simulation ends; or None.
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
    """Collects the figures of a simulation: `served` after each request.

    Args:
        allocator: the one that is simulated.
    """

    def __init__(self, allocator: _core.ModelledAllocator) -> None:
        self._allocator = allocator
        self._reserved: list[int] = []
        self._active: list[int] = []
        self._peak = (0, 0)
        self._peak_active = 0

    def begin(self) -> None:
        """Starts an iteration: earlier ones count for the peaks only."""
        self._count()
        self._reserved, self._active = [], []

    def served(self) -> None:
        """Takes the figures after a request."""
        self._reserved.append(self._allocator.reserved)
        self._active.append(self._allocator.active)

    def result(self, ticks: int, address: list[int], failed: int | None = None) -> Reserved:
        """The figures; after a failure the curves stay where they were."""
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
