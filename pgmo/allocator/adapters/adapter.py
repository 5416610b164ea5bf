"""Interface between a session and a framework's allocator."""

import ctypes
from abc import ABC, abstractmethod

from pgmo import _core
from pgmo.allocator.adapters.baseline import Baseline
from pgmo.errors import AdapterError
from pgmo.packing.plan import Plan
from pgmo.profiler.tagging.operators import Operators


class Memory(ctypes.Structure):
    """Block or range of addresses for slots, from an adapter: `pgmo_arena` of pgmo_engine.h."""

    _fields_ = (
        ("base", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("give_back", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )

    base: int
    bytes: int
    give_back: int | None
    context: int | None

    def return_now(self) -> None:
        """Free the memory. Call this only if it was not passed to an engine."""
        if self.give_back:
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.give_back)(self.context)

    @property
    def owner(self) -> tuple[int, int]:
        """Address of the function that frees the memory, and its argument; 0, 0 for none."""
        return self.give_back or 0, self.context or 0


class Adapter(ABC):
    """Interface between a session and a framework's allocator. `alignment` is in bytes."""

    name: str
    version: str
    device: str
    alignment: int
    engine: _core.Engine
    operators: Operators
    """The framework's operators, for tags. Adapters of CuPy have none."""
    session_index: int = 0
    """Number of the session among the sessions that share the device's pages, from 0."""
    pages: bool = False
    """Whether arenas are only addresses, to which pages are mapped when slots need them."""
    unified: bool = False
    """Whether all memory is unified memory, which the session prefetches between iterations."""

    @property
    def unified_memory(self) -> tuple[int, int]:
        """Peak bytes of unified memory, and the card's free bytes before; 0, 0 if unused."""
        return 0, 0

    @property
    def requested_bytes(self) -> int:
        """Bytes of all requests of the process on the device so far; 0 if they are not counted."""
        return 0

    @property
    def note(self) -> str:
        """Note for the summary of a session; "" for none."""
        return ""

    @property
    def delegation_reason(self) -> str:
        """Reason why the session should serve no requests; "" if it should serve them."""
        return ""

    def choose_pages(self, wanted: bool, limit: int) -> None:  # noqa: B027
        """Set whether the session uses pages. Called before `install`.

        Args:
            wanted: whether to use pages if the device has virtual memory. Without pages, each arena
                is one block of the framework.
            limit: maximum bytes of pages; 0 for no limit.
        """

    @abstractmethod
    def install(self) -> None:
        """Install the engine over the framework's allocator, unless it is installed."""

    @abstractmethod
    def uninstall(self) -> None:
        """Uninstall the engine if no session needs it; raise `AdapterError` if that fails."""

    @abstractmethod
    def take_arena(self, size: int, stream: int) -> Memory | None:
        """Allocate `size` bytes (with `pages`, addresses) for an arena; None for an unused stream.

        Raises:
            AdapterError: if memory or addresses are short.
        """

    @abstractmethod
    def take_spill(self, size: int) -> Memory:
        """Allocate `size` bytes of unified memory for spilled slots of all streams.

        Raises:
            AdapterError: if memory is short, or unified memory cannot exceed the device's memory.
        """

    @abstractmethod
    def empty_cache(self, *, pages: bool = False) -> None:
        """Return unused memory to the system; in a session with pages, only if `pages` is set."""

    def spare_memory(self, on: bool) -> None:  # noqa: B027
        """Switch the framework's allocator between a low peak (on) and speed, if it can switch."""

    def after_replay(self, plan: Plan) -> None:  # noqa: B027
        """Prepare for the next iteration, which is expected to follow the plan."""

    def advise(self, text: str) -> None:  # noqa: B027
        """Set the text to append to out-of-memory errors, if the framework supports a text."""

    def baseline(self) -> Baseline | None:
        """Return the modelled memory of plain PyTorch; None if there is no model."""
        return None


_THIS_IMPORT = object()


def new_engine() -> _core.Engine:
    """Return an engine that is never destroyed, because its blocks may outlive all Python objects.

    Raises:
        AdapterError: if pgmo was imported a second time, because allocators still use the engines
            of the first import.
    """
    if vars(_core).setdefault("_first_import", _THIS_IMPORT) is not _THIS_IMPORT:
        raise AdapterError(
            "pgmo was imported a second time after its modules were removed from sys.modules: "
            "restart the program to use pgmo again"
        )
    engine = _core.Engine()
    engine.keep_forever()
    return engine
