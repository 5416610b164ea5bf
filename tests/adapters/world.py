"""PyTorch's side of the CUDA adapter, without CUDA: blocks, streams, pools and tensors."""

import ctypes
import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pgmo.allocator.build.library import AdapterLibrary

_MESSAGE = 1 << 12
_LOG = 1 << 20


class TorchError(Exception):
    """A `c10::Error` of another type than the one below."""


class OutOfMemoryError(TorchError):
    """A `c10::OutOfMemoryError`."""


class World:
    """One adapter, one allocator beneath, one runtime; nothing is shared with another world.

    Args:
        path: a library of `build`, of which no other copy may be loaded from the same path.
    """

    def __init__(self, path: Path) -> None:
        self.adapter = AdapterLibrary(path, "the tests")
        self._fake = ctypes.CDLL(str(path))
        for name in ("upstream", "current", "address"):
            getattr(self._fake, f"fake_{name}").restype = ctypes.c_void_p
        for name in ("log", "complaints", "living", "used"):
            getattr(self._fake, f"fake_{name}").restype = ctypes.c_size_t
        self._fake.fake_attack.restype = ctypes.c_uint64
        self._fake.fake_method.restype = ctypes.c_char_p

    def ask(self, name: str, *arguments: object) -> int:
        """Calls a function that does not throw."""
        return getattr(self._fake, f"fake_{name}")(*arguments)

    def call(self, name: str, *arguments: object) -> str:
        """Calls one that may; returns the text that it leaves."""
        message = ctypes.create_string_buffer(_MESSAGE)
        error = getattr(self._fake, f"fake_{name}")(*arguments, message, ctypes.c_size_t(_MESSAGE))
        text = message.value.decode()
        if error:
            raise (OutOfMemoryError if error == 2 else TorchError)(text)
        return text

    def _text(self, name: str) -> list[str]:
        text = ctypes.create_string_buffer(_LOG)
        length = self.ask(name, text, ctypes.c_size_t(_LOG))
        assert length < _LOG
        return text.value.decode().splitlines()

    def log(self) -> list[str]:
        """What the allocator beneath and the runtime were asked for since the last call."""
        return self._text("log")

    def complaints(self) -> list[str]:
        """What a real runtime would have refused, or done wrong in silence."""
        return self._text("complaints")

    # --- allocators -----------------------------------------------------------------------------

    @property
    def current(self) -> int:
        """Address of the allocator that PyTorch uses now."""
        return self.ask("current")

    def upstream(self, which: int = 0) -> int:
        """Address of PyTorch's own (0), or of another one (1)."""
        return self.ask("upstream", which)

    def store(self, allocator: int) -> None:
        """Exchanges PyTorch's allocator."""
        self.ask("store", ctypes.c_void_p(allocator))

    def living(self, which: int = 0) -> int:
        """How many blocks of the allocator beneath are alive."""
        return self.ask("living", which)

    def limit(self, size: int, device: int = 0) -> None:
        """Sets a device's memory."""
        self.ask("limit", device, ctypes.c_size_t(size))

    def used(self, device: int = 0) -> int:
        """Bytes of a device that are in use."""
        return self.ask("used", device)

    # --- blocks ---------------------------------------------------------------------------------

    def allocate(self, size: int) -> "Block":
        """What PyTorch does for a tensor, on the current device and stream."""
        data = ctypes.c_void_p()
        self.call("allocate", ctypes.c_size_t(size), ctypes.byref(data))
        assert data.value is not None
        return Block(self, data.value, size)

    def raw_alloc(self, size: int) -> int:
        """What libraries do for their workspaces; returns the address."""
        block = ctypes.c_void_p()
        self.call("raw_alloc", ctypes.c_size_t(size), ctypes.byref(block))
        return block.value or 0

    def raw_alloc_with_stream(self, size: int, stream: int, device: int = 0) -> int:
        """The same for a stream, which need not be the current one."""
        block = ctypes.c_void_p()
        self.call(
            "raw_alloc_with_stream", ctypes.c_size_t(size), device, stream, ctypes.byref(block)
        )
        return block.value or 0

    def raw_delete(self, address: int) -> None:
        """Frees what one of these two has returned."""
        self.call("raw_delete", ctypes.c_void_p(address))

    # --- devices, streams, captures -------------------------------------------------------------

    @contextmanager
    def on(self, device: int = 0, stream: int = 0):
        """Another current device and stream of this thread."""
        before = self.ask("device")
        self.ask("set_device", device)
        self.ask("set_stream", device, stream)
        yield
        self.ask("set_stream", device, 0)
        self.ask("set_device", before)

    @contextmanager
    def failing(self, what: int):
        """CUDA is shutting down (1), events cannot be recorded (2), copies fail (3)."""
        self.ask("fail", what)
        yield
        self.ask("fail", 0)

    @contextmanager
    def held(self, stream: int, device: int = 0):
        """Work that is submitted to the stream inside is not done before the end."""
        self.ask("hold", device, stream)
        yield
        self.ask("let_go", device, stream)

    @contextmanager
    def capturing(self, stream: int, device: int = 0):
        """A stream whose work is captured, as `torch.cuda.graph` does it but for the pool."""
        self.ask("capture", device, stream, 1)
        yield
        self.ask("capture", device, stream, 0)

    @contextmanager
    def pool(self, claims_stream: int | None = None, device: int = 0, number: int = 7):
        """An allocation pool: of what this thread requests, or of what a stream is used for."""
        by_stream = claims_stream is not None
        name = ctypes.c_uint64(number)
        self.call("begin_pool", device, name, int(by_stream), claims_stream or 0)
        yield
        self.call("end_pool", device, name)


class Block:
    """A `c10::DataPtr`."""

    def __init__(self, world: World, data: int, size: int) -> None:
        self._world = world
        self.data = data
        self.size = size
        self.address = world.ask("address", ctypes.c_void_p(data)) or 0
        self.device = world.ask("device_of", ctypes.c_void_p(data))

    def free(self) -> None:
        self._world.ask("free", ctypes.c_void_p(self.data))

    def record_stream(self, stream: int, device: int = 0, of_any: bool = False) -> None:
        """Tells that it is used on a stream; `of_any`: through the method of all kinds of them."""
        self._world.call("record_stream", ctypes.c_void_p(self.data), device, stream, int(of_any))

    def share(self) -> None:
        self._world.call("share", ctypes.c_void_p(self.address))

    def base(self) -> int:
        """Bytes of the allocation that it is a part of."""
        size = ctypes.c_size_t()
        self._world.call("base", ctypes.c_void_p(self.address), ctypes.byref(size))
        return size.value

    def fill(self, value: int) -> None:
        ctypes.memset(self.address, value, self.size)

    def holds(self, value: int) -> bool:
        return ctypes.string_at(self.address, self.size) == bytes([value]) * self.size


@dataclass(frozen=True)
class Slot:
    """One request of a plan: bytes, where in its stream's arena, and until when.

    A varying one serves whatever is not larger.
    """

    size: int
    offset: int
    end: int
    stream: int = 0
    varying: bool = False


def serve(adapter, slots: list[Slot], arena: int = 4096) -> dict[int, int]:
    """Takes an arena for each stream and replays a plan; returns where the arenas begin."""
    engine = adapter.engine
    streams = sorted({slot.stream for slot in slots})
    bases = {}
    for at, stream in enumerate(streams):
        memory = adapter.take_arena(arena, stream)
        assert memory is not None, f"stream {stream} has not been used yet"
        engine.add_arena(stream, at * arena, memory.base, memory.bytes, *memory.owner)
        bases[stream] = memory.base
    engine.add_plan(
        size=np.array([slot.size for slot in slots]),
        stream_index=np.array([streams.index(slot.stream) for slot in slots], np.uint32),
        varying=np.array([slot.varying for slot in slots]),
        end=np.array([slot.end for slot in slots]),
        offset=np.array([streams.index(slot.stream) * arena + slot.offset for slot in slots]),
        alternate=np.full(len(slots), -1),
        family=np.zeros(len(slots), np.uint32),
        streams=streams,
        arena_bytes=arena * len(streams),
        alignment=512,
    )
    engine.start_serving()
    return bases


def in_thread(body: Callable[[], object]) -> None:
    """Runs it in a thread of its own; what it raises is raised here."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            body()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
