"""Prediction of the bytes that PyTorch's own allocator reserves for a profile."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.profile import Profile

SETTINGS = {"default": "", "expandable": "expandable_segments:True"}
"""Predicted settings by name, in the form of PYTORCH_CUDA_ALLOC_CONF."""


@dataclass(frozen=True)
class Reservation:
    """Predicted memory of PyTorch's CUDA allocator under one setting; sizes in bytes.

    Args:
        peak: peak of the reserved bytes.
        active: peak of the bytes in blocks, as rounded up by the allocator.
        fragmentation: share of the peak of reserved bytes that contains no block.
        curve: bytes reserved at each tick of the last simulated iteration, shape (ticks,).
        address: address of each block of the profile, 0 for a block that is not allocated, shape
            (n,).
    """

    peak: int
    active: int
    fragmentation: float
    curve: NDArray[np.int64] = field(repr=False, compare=False)
    address: NDArray[np.int64] = field(repr=False, compare=False)


def predict_reserved(profile: Profile) -> dict[str, Reservation]:
    """Predict the memory that PyTorch reserves on an unlimited card, by the names of `SETTINGS`."""
    from pgmo.profiler.caching.model import AllocatorSettings, simulate_profile

    predicted = {}
    for name, text in SETTINGS.items():
        result = simulate_profile(profile, AllocatorSettings.from_text(text))
        predicted[name] = Reservation(
            peak=int(result.peak_reserved),
            active=int(result.peak_active),
            fragmentation=float(result.fragmentation),
            curve=result.reserved,
            address=result.address,
        )
    return predicted
