"""Peak of the card by batch and length, for scripts without optimizer steps, such as inference.

At each length, a line through the peaks of two batches gives the largest batch that fits.
"""

from collections.abc import Mapping
from math import floor

import numpy as np

from pgmo.errors import RehearsalError

_APART = 0.9
"""Maximum ratio of the smaller to the larger batch of the line."""


class PeakLaw:
    """Largest batch that fits at any length, from the peaks of whole runs.

    Args:
        peaks: bytes of the card that whole runs took, by batch and length: two batches at the same
            lengths.
    """

    def __init__(self, peaks: Mapping[tuple[int, int], int]) -> None:
        self._curves = {}
        for batch in sorted({batch for batch, _ in peaks}):
            sizes = {length: size for (one, length), size in peaks.items() if one == batch}
            # A polynomial through all lengths: attention without a fused kernel is quadratic.
            self._curves[batch] = np.polynomial.Polynomial.fit(
                list(sizes), list(sizes.values()), len(sizes) - 1
            )
        self._measured: dict[int, dict[int, int]] = {}

    def add(self, batch: int, length: int, peak: int) -> None:
        """Add the peak of another whole run, which corrects predictions at its length."""
        self._measured.setdefault(length, {})[batch] = peak

    def largest(self, length: int, usable: int) -> int:
        """Return the largest batch at a length that is predicted to fit; 0 if none does.

        Raises:
            RehearsalError: if the peak does not grow with the batch.
        """
        sizes = {batch: float(curve(length)) for batch, curve in self._curves.items()}
        sizes |= self._measured.get(length, {})
        last = max(sizes)
        # A line through close batches would depend on the rounding to whole pages.
        before = max(batch for batch in sizes if batch <= _APART * last)
        slope = (sizes[last] - sizes[before]) / (last - before)
        if slope <= 0:
            raise RehearsalError(
                f"the peak of the card is the same with {before} and {last}, so no largest value "
                "can be predicted: check that the first option sets the number of samples"
            )
        return max(0, floor(last + (usable - sizes[last]) / slope))
