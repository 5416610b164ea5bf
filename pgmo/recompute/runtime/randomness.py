"""The states of PyTorch's generators of random numbers, to put back."""

from collections.abc import Iterable

import torch


class Randomness:
    """What the generators of the CPU and of some devices would draw next.

    Args:
        devices: whose generators count beside the CPU's.

    Example:
        >>> before = Randomness([])
        >>> drawn = torch.rand(2)
        >>> before.put_back()
        >>> torch.equal(torch.rand(2), drawn)
        True
    """

    def __init__(self, devices: Iterable[torch.device]) -> None:
        self._cpu = torch.get_rng_state()
        self._cuda = [(one, torch.cuda.get_rng_state(one)) for one in devices if one.type == "cuda"]

    def put_back(self) -> None:
        """Makes the generators draw that again."""
        torch.set_rng_state(self._cpu)
        for device, state in self._cuda:
            torch.cuda.set_rng_state(state, device)
