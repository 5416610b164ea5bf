"""Simulated framework without memory, and programs that run on it.

The engine does not access the memory that it returns, so addresses suffice. An oracle that shares
no code with the engine knows every live block.
"""

import bisect
import ctypes
from collections import defaultdict
from collections.abc import Callable, Sequence

from pgmo import _core
from pgmo.allocator.adapters.adapter import Adapter, Memory
from pgmo.allocator.session.options import Options
from pgmo.allocator.session.session import Session
from pgmo.errors import AdapterError
from pgmo.profiler.tagging.operators import OperatorAnswer

LAYERS = [4096, 1 << 16, 1 << 14, 1 << 18, 512, 1 << 16]
"""Sizes of the activations of the usual `Loop`."""


class Oracle:
    """Live blocks as intervals of addresses; overlaps are errors."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: dict[int, int] = {}

    def add(self, address: int, size: int) -> None:
        at = bisect.bisect_left(self._starts, address)
        if at > 0:
            before = self._starts[at - 1]
            assert self._ends[before] <= address, "handed out inside of a living block"
        if at < len(self._starts):
            assert address + size <= self._starts[at], "handed out over a living block"
        self._starts.insert(at, address)
        self._ends[address] = address + size

    def remove(self, address: int) -> None:
        self._starts.pop(bisect.bisect_left(self._starts, address))
        del self._ends[address]

    def __len__(self) -> int:
        return len(self._starts)


class NoOperators:
    """Operators of a framework without operators."""

    def observe(self, begin: Callable[[str, str, int], OperatorAnswer]) -> None:
        pass

    def ignore(self) -> None:
        pass

    def suspend(self, suspended: bool) -> None:
        pass


class SimulatedAdapter(Adapter):
    """Adapter of the simulated framework.

    Attributes:
        arenas: address and bytes of each arena that was allocated, by stream.
        returned: addresses of the freed arenas.
    """

    name = "simulated"
    version = "1"
    device = "cpu"
    alignment = 64

    def __init__(self) -> None:
        self.engine = _core.Engine()
        self.operators = NoOperators()
        self.oracle = Oracle()
        self.installed = False
        self.arenas: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.returned: list[int] = []
        self.advice = ""
        self._give_back = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.returned.append)
        self._streams = {0}  # used streams
        self._next = 1 << 20

    def install(self) -> None:
        self.installed = True

    def uninstall(self) -> None:
        self.installed = False

    def empty_cache(self, *, pages=False) -> None:
        pass

    def spare_memory(self, on: bool) -> None:
        self.sparing = on

    def take_arena(self, size: int, stream: int) -> Memory | None:
        return self._take(size, self.arenas[stream]) if stream in self._streams else None

    def take_spill(self, size: int) -> Memory:
        raise AdapterError("there is nowhere to spill to")

    def advise(self, text: str) -> None:
        self.advice = text

    def request(self, size: int, stream: int = 0) -> int:
        """Request a block as for a tensor, and return its address."""
        self._streams.add(stream)
        address = self.engine.allocate(size, stream) if self.installed else 0
        if address:
            places = self.arenas[stream]
            assert any(base <= address <= base + extent - size for base, extent in places)
            assert address % self.alignment == 0
        else:
            address = self._fresh(size)
            if self.installed:
                self.engine.adopt(address, size, stream)
        self.oracle.add(address, size)
        return address

    def free(self, address: int) -> None:
        self.oracle.remove(address)
        self.engine.release(address)

    def served(self, address: int) -> bool:
        """Return whether a block is in an arena."""
        places = [arena for arenas in self.arenas.values() for arena in arenas]
        return any(base <= address < base + size for base, size in places)

    def _take(self, size: int, places: list[tuple[int, int]]) -> Memory:
        base = self._fresh(size)
        places.append((base, size))
        give_back = ctypes.cast(self._give_back, ctypes.c_void_p).value
        return Memory(base=base, bytes=size, give_back=give_back, context=base)

    def _fresh(self, size: int) -> int:
        address = self._next
        self._next += (size + 4095) // 4096 * 4096 + 4096
        return address


def open_session(adapter: SimulatedAdapter, **options: object) -> Session:
    """Return a session over the framework. Tags need torch, so they are off by default."""
    return Session(Options(**{"tags": False, **options}), lambda: adapter)  # type: ignore[arg-type]


class Loop:
    """Small training loop: the forward pass keeps blocks, the backward pass frees them.

    Args:
        framework: framework that serves the requests.
        layers: size of each layer's activation.
        scale: factor of the activations, for another batch size or length.
    """

    def __init__(self, adapter: SimulatedAdapter, layers: Sequence[int], scale: int = 1) -> None:
        self._adapter = adapter
        self.layers = list(layers)
        self.scale = scale
        self._gradients: list[int] = []
        self._loss: int | None = None
        self.state: list[int] = []

    def __call__(self, extra: Callable[[], None] | None = None) -> None:
        request, free = self._adapter.request, self._adapter.free
        for address in self._gradients:  # zero_grad
            free(address)
        self._gradients.clear()
        kept = []
        for size in self.layers:
            kept.append(request(size * self.scale))
            free(request(96 * self.scale))
        if extra is not None:
            extra()
        loss = request(4)
        if self._loss is not None:  # the old loss is freed after the new one is allocated
            free(self._loss)
        self._loss = loss
        for size, activation in zip(reversed(self.layers), reversed(kept), strict=True):
            self._gradients.append(request(size))
            free(activation)
        if not self.state:
            self.state = [request(size) for size in self.layers]

    def drop(self) -> None:
        """Free the blocks that wrap into the next iteration."""
        for address in (*self._gradients, *([self._loss] if self._loss else [])):
            self._adapter.free(address)
        self._gradients, self._loss = [], None

    def finish(self) -> None:
        self.drop()
        for address in self.state:
            self._adapter.free(address)
        self.state = []


def run(loop: Loop, session: Session, times: int, **kwargs: Callable[[], None]) -> None:
    """Run a number of iterations."""
    for _ in range(times):
        with session.iteration():
            loop(**kwargs)
