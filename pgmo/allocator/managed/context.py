"""`pgmo.managed`: unified memory for whatever a framework requests."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from pgmo.allocator.adapters.card import Card
from pgmo.allocator.managed.cupy_pool import CupyManaged
from pgmo.allocator.managed.torch_pool import TorchManaged
from pgmo.allocator.session.options import check_framework
from pgmo.errors import OptionError, SessionError
from pgmo.units import format_bytes

_active: dict[str, "Managed"] = {}
"""What is in unified memory now, by framework and device."""


class ManagedPool(Protocol):
    """What a framework's requests can be sent to."""

    index: int
    device: str

    def card(self) -> Card:
        """The device's memory now."""

    def begin(self) -> None:
        """Sends requests there."""

    def end(self) -> None:
        """Sends them where they went before."""

    def renew(self) -> None:
        """Gives back what is cached."""

    def held(self, *, reset: bool = False) -> tuple[int, int]:
        """Bytes held now, and the most since the last reset."""


class Managed:
    """Unified memory that is in use; made by `managed`.

    Attributes:
        card: the device's memory before anything was in unified memory.

    Example:
        >>> with pgmo.managed() as memory:  # doctest: +SKIP
        ...     train_step(batch)
        >>> print(memory)  # doctest: +SKIP
        pgmo: 30.1 GiB of unified memory on cuda:0, 1.28 times the room of 23.5 GiB
    """

    def __init__(self, pool: ManagedPool) -> None:
        self.pool = pool
        self.card = pool.card()
        self.card.require_managed()
        self._most = 0
        self._ended = False

    @property
    def bytes(self) -> int:
        """Of unified memory, held now."""
        return self.pool.held()[0]

    @property
    def peak(self) -> int:
        """The most that was held."""
        return self._most if self._ended else max(self._most, self.pool.held()[1])

    @property
    def oversubscription(self) -> float:
        """The peak against the card's room: above 1, pages had to move over the bus."""
        return self.card.oversubscription(self.peak)

    def open(self) -> None:
        """Sends the framework's requests to unified memory."""
        self.pool.held(reset=True)
        self.pool.begin()

    def close(self) -> None:
        """Sends them where they went before."""
        self.pool.end()
        self.lap()
        self._ended = True

    def lap(self) -> int:
        """The most that was held since this was called before; `peak` remembers all of them."""
        lap = self.pool.held(reset=True)[1]
        self._most = max(self._most, lap)
        return lap

    def __str__(self) -> str:
        return (
            f"pgmo: {format_bytes(self.peak)} of unified memory on {self.card.device}, "
            f"{self.oversubscription:.2f} times the room of {format_bytes(self.card.free)}"
        )


def make_managed(framework: str = "torch", device: object = None) -> Managed:
    """Unified memory for a framework, not in use yet.

    Raises:
        OptionError, AdapterError: as `managed`.

    Example:
        >>> make_managed("torch", "cuda:0").card.concurrent  # doctest: +SKIP
        True
    """
    check_framework(framework, device)
    name = str(device)
    if name == "cpu":
        raise OptionError("unified memory is for CUDA devices; device='cpu' has no use for it")
    _, _, index = name.partition(":")
    number = int(index) if index else None
    return Managed(CupyManaged(number) if framework == "cupy" else TorchManaged(number))


def in_use(framework: str, device: str) -> Managed | None:
    """What a framework uses of unified memory on a device, inside of `managed`.

    Example:
        >>> in_use("torch", "cuda:0")
    """
    return _active.get(f"{framework}/{device}")


@contextmanager
def managed(*, framework: str = "torch", device: object = None) -> Iterator[Managed]:
    """Serves what a framework requests from unified memory, which may exceed the card.

    The framework's own allocator goes on caching; only its segments come from
    `cudaMallocManaged`, as with CuPy's `MemoryPool(malloc_managed)`, for requests of all threads.
    What is touched moves to the card, and back to the host when others need the room: slow, but it
    runs. Made for taking a profile of a model that does not fit. Tensors that exist already stay
    where they are, those made inside stay valid afterwards. Captured graphs keep pools of their
    own.

    Args:
        framework: whose memory: "torch" (default) or "cupy".
        device: "cuda", "cuda:1", or a `torch.device`; by default the current one. With CuPy the
            one whose memory is told about: its allocator is that of all devices.

    Raises:
        OptionError: when an option cannot be used.
        AdapterError: when the framework or a device is missing, or the device has no concurrent
            access to unified memory (Windows, WSL, cards before Pascal).
        SessionError: when it is in use already.

    Example:
        >>> with pgmo.managed() as memory:  # doctest: +SKIP
        ...     train_step(batch)
        >>> memory.oversubscription  # doctest: +SKIP
        1.28
    """
    made = make_managed(framework, device)
    key = f"{framework}/{made.card.device}"
    if key in _active:
        raise SessionError(
            f"{framework} uses unified memory on {made.card.device} already; leave that block first"
        )
    made.open()
    _active[key] = made
    try:
        yield made
    finally:
        del _active[key]
        made.close()
