"""Live memory and parameters after each step of an optimizer."""

import weakref
from typing import Any


class Levels:
    """Record of live memory and parameters, with one entry for each step of an optimizer.

    Attributes:
        live: live bytes at the end of each step, on the card with the most live bytes.
        elements: elements of all parameters of the optimizer at the end of each step.
        replaced: number of steps after which the optimizer had other parameters than before.
    """

    def __init__(self) -> None:
        self.live: list[int] = []
        self.elements: list[int] = []
        self.replaced = 0
        # Weak, because parameters that the script replaces must be freed.
        self._last: list[weakref.ref[Any]] = []

    def add(self, optimizer: Any) -> None:
        """Add the entry of a finished step."""
        import torch

        cards = range(torch.cuda.device_count())
        self.live.append(max(torch.cuda.memory_allocated(one) for one in cards))
        now = [one for group in optimizer.param_groups for one in group["params"]]
        self.elements.append(sum(one.numel() for one in now))
        same = len(now) == len(self._last) and all(
            before() is one for before, one in zip(self._last, now, strict=True)
        )
        if not same:
            self.replaced += bool(self._last)
            self._last = [weakref.ref(one) for one in now]


def peak_of_live() -> int:
    """Return the peak of live bytes since the last reset, on the card with the highest peak."""
    import torch

    cards = range(torch.cuda.device_count())
    return max(torch.cuda.max_memory_allocated(one) for one in cards)


def reset_peaks() -> None:
    """Reset the peaks of all cards; do nothing before CUDA is initialized."""
    import torch

    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        for one in range(torch.cuda.device_count()):
            torch.cuda.reset_peak_memory_stats(one)
