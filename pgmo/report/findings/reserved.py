"""What PyTorch's own allocator would reserve for a profile."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pgmo.profiler.profile import Profile

SETTINGS = {"default": "", "expandable": "expandable_segments:True"}
"""The settings that are tried, by name, in the form of PYTORCH_CUDA_ALLOC_CONF."""


@dataclass(frozen=True)
class Reservation:
    """What PyTorch's CUDA allocator is predicted to reserve under one setting; sizes in bytes.

    Args:
        peak: the most reserved at once.
        active: the most in blocks at once, rounded up as the allocator does.
        fragmentation: share of the reserved peak that no block takes.
        failed: request at which memory ran out, if a limit was given and it did.
        curve: bytes reserved at each tick of the last iteration, shape (ticks,).
        address: where each block of the profile is placed then, 0 if it is not, shape (n,).
    """

    peak: int
    active: int
    fragmentation: float
    failed: int | None
    curve: NDArray[np.int64] = field(
        default_factory=lambda: np.zeros(0, np.int64), repr=False, compare=False
    )
    address: NDArray[np.int64] = field(
        default_factory=lambda: np.zeros(0, np.int64), repr=False, compare=False
    )


def predict_reserved(profile: Profile) -> dict[str, Reservation]:
    """Predicts what PyTorch reserves for a profile by default and with expandable segments.

    Returns:
        Under the names of `SETTINGS`.

    Example:
        >>> profile = Profile.from_columns(size=[1000], start=[0], end=[1], ticks=1)
        >>> predict_reserved(profile)["default"].peak
        2097152
    """
    from pgmo.profiler.caching.model import AllocatorSettings, simulate_profile

    predicted = {}
    for name, text in SETTINGS.items():
        result = simulate_profile(profile, AllocatorSettings.from_text(text))
        predicted[name] = Reservation(
            peak=int(result.peak_reserved),
            active=int(result.peak_active),
            fragmentation=float(result.fragmentation),
            failed=result.failed,
            curve=result.reserved,
            address=result.address,
        )
    return predicted
