"""Adapter of a session inside `managed`: all memory, including arenas, is unified memory.

session ──▶ UnifiedAdapter ──▶ the framework's adapter ──▶ a pool of unified memory
                └─ after replayed iterations, prefetches the slots that are needed first
"""

from pgmo.allocator.adapters.adapter import Adapter, Memory
from pgmo.allocator.adapters.managed_hints import Hints
from pgmo.allocator.adapters.torch_cuda import TorchCuda
from pgmo.allocator.managed.context import Managed
from pgmo.allocator.managed.prefetch import Moves, moves
from pgmo.allocator.plans.layout import extents
from pgmo.packing.plan import Plan


class UnifiedAdapter(Adapter):
    """Adapter whose arenas and other blocks are in unified memory."""

    unified = True

    def __init__(self, adapter: TorchCuda, managed: Managed) -> None:
        self._adapter = adapter
        self.name = adapter.name
        self.version = adapter.version
        self.device = adapter.device
        self.alignment = adapter.alignment
        self.engine = adapter.engine
        self.managed = managed
        self.hints = Hints(adapter.index)
        self._arenas: dict[int, tuple[int, int]] = {}  # address and bytes by stream
        self._moves: tuple[Plan, Moves] | None = None

    @property
    def unified_memory(self) -> tuple[int, int]:
        """Peak bytes of unified memory, and the card's free bytes when `managed` began."""
        return self.managed.peak, self.managed.card.free

    @property
    def note(self) -> str:
        """Note of the framework's adapter, and why hints have stopped, if they have; else ""."""
        return "; ".join(filter(None, (self._adapter.note, self.hints.note)))

    def choose_pages(self, wanted: bool, limit: int) -> None:
        """Make each arena one block, because unified memory has no device pages."""
        self._adapter.choose_pages(False, 0)

    def install(self) -> None:
        """Install the engine over unified memory."""
        self._adapter.install()

    def uninstall(self) -> None:
        """Uninstall the engine."""
        self._adapter.uninstall()

    def take_arena(self, size: int, stream: int) -> Memory | None:
        """Allocate a block for an arena; return None if the stream was never used."""
        memory = self._adapter.take_arena(size, stream)
        if memory is not None:
            self._arenas[stream] = (memory.base, memory.bytes)
            self._moves = None
        return memory

    @property
    def arenas(self) -> list[tuple[int, int]]:
        """Address and bytes of each arena."""
        return list(self._arenas.values())

    @property
    def _fits(self) -> bool:
        return sum(size for _, size in self.arenas) <= self.managed.card.free

    def take_spill(self, size: int) -> Memory:
        """Allocate a block for spilled slots."""
        return self._adapter.take_spill(size)

    def empty_cache(self, *, pages: bool = False) -> None:
        """Free cached memory, so that memory of recording and of replay is never held together."""
        if not pages:  # arenas are about to be replaced; a call for idle pages keeps the arenas
            self._arenas.clear()
        self.managed.renew()
        self._adapter.empty_cache()

    def advise(self, text: str) -> None:
        """Set the text to append to out-of-memory errors."""
        self._adapter.advise(text)

    def after_replay(self, plan: Plan) -> None:
        """Prefetch for the next iteration, unless all arenas fit on the device and are there."""
        known = self._moves is not None and self._moves[0] is plan
        if not (known and self._fits):  # if all arenas fit, the first prefetch has moved them
            self.prefetch(plan)

    def prefetch(self, plan: Plan) -> None:
        """Move memory that an iteration needs first to the device, and idle memory to the host.

        If all arenas fit on the device, also hint to the driver to keep them there.
        """
        if self._moves is None and self._fits:
            for base, size in self.arenas:
                self.hints.keep_on_device(base, size)
        if self._moves is None or self._moves[0] is not plan:
            self._moves = (plan, moves(plan, self.managed.card.free))
        due = self._moves[1]
        for stream, (low, high) in extents(plan).items():  # host first, to make room
            base, size = self._arenas.get(stream, (0, 0))
            high = min(high, low + size)
            for begin, end in _within(due.to_host, low, high):
                self.hints.prefetch(base + begin - low, end - begin, to_device=False)
            for begin, end in _within(due.to_device, low, high):
                self.hints.prefetch(base + begin - low, end - begin, to_device=True)


def _within(ranges: tuple[tuple[int, int], ...], low: int, high: int) -> list[tuple[int, int]]:
    cut = [(max(begin, low), min(end, high)) for begin, end in ranges]
    return [(begin, end) for begin, end in cut if begin < end]
