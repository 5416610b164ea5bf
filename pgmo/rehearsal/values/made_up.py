"""Values for memory that is read and that no kernel has written.

They let a script take its ordinary way: finite, positive, spread out where something is chosen
among them, and falling from one reading to the next where a single one is read, as a loss does.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from pgmo.rehearsal.values.known import KnownStorages, on_host, whole

MOST = 1 << 21
"""Elements that are made up or computed at most; reading more of them is left to chance."""

_SEED = 20180713

_EVEN = 1 << 12
"""Elements that are spread evenly at most."""

_SHARE = 2
"""One of so many elements of a mask that nobody knows is true."""


class MadeUp:
    """Makes values up, and keeps account of it.

    Args:
        known: which memory need not be made up.

    Attributes:
        read: how often values were read that were made up, by what read them.
        sizes: how often a size depended on values that were made up, by operator and line.
    """

    def __init__(self, known: KnownStorages) -> None:
        self._known = known
        self._generator = torch.Generator().manual_seed(_SEED)
        self._readings = 0
        self._state = self._generator.get_state()
        self.read: Counter[str] = Counter()
        self.sizes: Counter[str] = Counter()

    def fill(self, tensor: Tensor, reader: str) -> bool:
        """Makes up what an unknown tensor holds, and whatever shares its storage.

        Returns:
            Whether it was small enough.
        """
        if tensor.numel() > MOST:
            return False
        self.read[reader] += 1
        all_of_it = whole(tensor)
        if all_of_it.numel() <= MOST:
            self._write(all_of_it)
            self._known.add(tensor)
        else:
            self._write(on_host(tensor))
        return True

    def note_size(self, name: str) -> None:
        """A size depends on what is made up, or on nothing."""
        self.sizes[f"{name} in {line_of_program()}"] += 1

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """In the block, torch draws numbers from here, and the script's own stay as they were."""
        before = torch.get_rng_state()
        torch.set_rng_state(self._state)
        try:
            yield
        finally:
            self._state = torch.get_rng_state()
            torch.set_rng_state(before)

    def repeated(self) -> "Repeated":
        """For code that is run again: it makes up the same values then."""
        return Repeated(self)

    def state(self) -> tuple[Tensor, Tensor, int]:
        """What the next values depend on."""
        return self._generator.get_state(), self._state, self._readings

    def return_to(self, state: tuple[Tensor, Tensor, int]) -> None:
        """The next values are those that came at a state."""
        generator, self._state, self._readings = state
        self._generator.set_state(generator)

    def _write(self, host: Tensor) -> None:
        if not host.is_floating_point() or host.element_size() == 1:
            host.view(torch.uint8).zero_()
        elif host.numel() > _EVEN:
            host.uniform_(0.5, 1.5, generator=self._generator)
        else:
            # Evenly spread, so that the mean falls from one reading to the next.
            self._readings += 1
            level = 1 + 1 / (1 + 0.01 * self._readings)
            count = host.numel()
            order = torch.randperm(count, generator=self._generator)
            host.copy_(level * (0.5 + (order + 0.5) / count))


class Repeated:
    """Makes up the same values each time that it is entered.

    Args:
        made_up: makes them up.
    """

    def __init__(self, made_up: MadeUp) -> None:
        self._made_up = made_up
        self._first: tuple[Tensor, Tensor, int] | None = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """A block: the first one goes on from here, later ones from where the first one began."""
        if self._first is None:
            self._first = self._made_up.state()
            yield
            return
        now = self._made_up.state()
        self._made_up.return_to(self._first)
        try:
            yield
        finally:
            self._made_up.return_to(now)


def share_of(count: int) -> int:
    """How many elements of a mask that nobody knows are taken to be true.

    Example:
        >>> share_of(7), share_of(1)
        (3, 1)
    """
    return max(1, count // _SHARE) if count else 0


def line_of_program() -> str:
    """The innermost line that is the program's own, as "train.py:12"."""
    frame = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if "site-packages" not in path and "/pgmo/" not in path and not path.startswith("<"):
            return f"{path.rpartition('/')[2]}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return "a library"
