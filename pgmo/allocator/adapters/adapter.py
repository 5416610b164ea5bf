"""Interface between a session and a framework's allocator."""

import ctypes
from abc import ABC, abstractmethod

from pgmo import _core
from pgmo.allocator.adapters.baseline import Baseline
from pgmo.errors import AdapterError
from pgmo.packing.plan import Plan


class Memory(ctypes.Structure):
    """`pgmo_arena` of pgmo_engine.h: one block that an adapter has taken from the framework."""

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
        """Returns a block that no engine has been given."""
        if self.give_back:
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.give_back)(self.context)

    @property
    def owner(self) -> tuple[int, int]:
        """The function that returns the block, and its argument, for the engine."""
        return self.give_back or 0, self.context or 0


class Adapter(ABC):
    """Interface between a session and a framework's allocator."""

    name: str
    version: str
    device: str
    alignment: int
    engine: _core.Engine
    seat: int = 0
    """Of the session, among those that share the device's pages; 0 where none can."""
    pages: bool = False
    """Whether arenas are addresses alone, whose pages come when slots need them."""
    unified: bool = False
    """Whether all memory is unified memory, of which a session prefetches between iterations."""

    @property
    def unified_memory(self) -> tuple[int, int]:
        """Peak bytes of unified memory, and bytes that the card had free before; 0 for none."""
        return 0, 0

    @property
    def note(self) -> str:
        """Note for the summary of a session; "" for none."""
        return ""

    @property
    def steps_aside(self) -> str:
        """Why the framework's allocator should serve everything; "" where it should not."""
        return ""

    def choose_pages(self, wanted: bool, limit: int) -> None:  # noqa: B027
        """Before a session is installed: whether it may have pages, and how many bytes of them.

        Args:
            wanted: False where arenas are to be single blocks in any case.
            limit: bytes; 0 for as many as the device has.
        """

    @abstractmethod
    def install(self) -> None:
        """Puts the engine under the framework's allocator."""

    @abstractmethod
    def uninstall(self) -> None:
        """Takes it away again."""

    @abstractmethod
    def take_arena(self, size: int, stream: int) -> Memory | None:
        """Takes a block for an arena of a stream; None when that stream was not used yet.

        Raises:
            AdapterError: when there is not so much memory.
        """

    @abstractmethod
    def take_spill(self, size: int) -> Memory:
        """Takes a block of unified memory for what plans spill; any stream may use it.

        Raises:
            AdapterError: when there is not so much, or the device has none beyond its own.
        """

    @abstractmethod
    def empty_cache(self, *, pages: bool = False) -> None:
        """Returns the framework's unused memory to the system.

        Args:
            pages: also what idles in pages, which otherwise go where they are needed.
        """

    def spare_memory(self, on: bool) -> None:  # noqa: B027
        """Prefers a low peak over speed in the framework's own allocator, as long as it is on."""

    def after_replay(self, plan: Plan) -> None:  # noqa: B027
        """Prepare for the next iteration, which follows the plan as the last one did."""

    def advise(self, text: str) -> None:  # noqa: B027
        """Set the text that out-of-memory errors add, where they can."""

    def baseline(self) -> Baseline | None:
        """Return what plain PyTorch would have reserved on the device; None without a model."""
        return None


_THIS_IMPORT = object()


def new_engine() -> _core.Engine:
    """Return an engine that its blocks may outlive.

    Raises:
        AdapterError: when pgmo has lost its modules and was imported again, for the allocators in
            the process keep the engines of the first import.
    """
    if vars(_core).setdefault("_first_import", _THIS_IMPORT) is not _THIS_IMPORT:
        raise AdapterError(
            "pgmo was imported a second time after its modules were removed from sys.modules: "
            "restart the program to use pgmo again"
        )
    engine = _core.Engine()
    # Tensors may outlive every Python object here, and their blocks are the engine's.
    engine.keep_forever()
    return engine
