"""CuPy: its own pool, over unified memory."""

from typing import Any

from pgmo import _core
from pgmo.allocator.adapters.card import Card
from pgmo.allocator.adapters.cupy import cupy_adapter, cupy_card
from pgmo.allocator.adapters.cupy_allocator import exchange


class CupyManaged:
    """Sends what CuPy requests to `MemoryPool(malloc_managed)`; arrays made there stay valid.

    Args:
        index: of the device that is asked about its memory; None for the current one.

    Raises:
        AdapterError: when CuPy is missing or finds no such device.

    Example:
        >>> pool = CupyManaged(0)  # doctest: +SKIP
        >>> pool.begin()  # doctest: +SKIP
        >>> pool.end()  # doctest: +SKIP
    """

    def __init__(self, index: int | None = None) -> None:
        adapter = cupy_adapter(index)
        import cupy

        self.index = adapter.index
        self.device = adapter.device
        self._cuda: Any = cupy.cuda
        self._pool: Any = None
        self._before: Any = None
        self._most = 0

    def card(self) -> Card:
        """The device's memory now."""
        return cupy_card(self._cuda, self.index)

    def begin(self) -> None:
        """Puts the pool in the place of the current allocator, or beneath ours."""
        self._pool = self._cuda.MemoryPool(self._cuda.malloc_managed)
        current = self._cuda.get_allocator()
        if isinstance(current, _core.CupyAllocator):
            self._before, current.upstream = current.upstream, self._pool.malloc
        else:
            self._before = current
            exchange(self._cuda, self._pool.malloc)

    def end(self) -> None:
        """Puts back what was there, unless somebody has put another one in its place."""
        self.held()
        current = self._cuda.get_allocator()
        if isinstance(current, _core.CupyAllocator) and current.upstream == self._pool.malloc:
            current.upstream = self._before
        elif current == self._pool.malloc:
            exchange(self._cuda, self._before)
        self._pool = None  # blocks that live keep theirs

    def renew(self) -> None:
        """Gives back what the pool has cached."""
        if self._pool is None:  # the program's own block has ended, and a session in it goes on
            return
        with self._cuda.Device(self.index):
            self._pool.free_all_blocks()

    def held(self, *, reset: bool = False) -> tuple[int, int]:
        """Bytes that the pool holds now, and the most that was seen since the last reset.

        CuPy tells no peak, so it is that of the moments at which this was called.
        """
        now = 0  # when it has ended
        if self._pool is not None:
            with self._cuda.Device(self.index):  # a pool counts by device
                now = int(self._pool.total_bytes())
        self._most = max(self._most, now)
        most = self._most
        if reset:
            self._most = now
        return now, most
