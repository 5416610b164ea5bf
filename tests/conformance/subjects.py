"""Programs that allocate through an adapter's framework, for the suite of adapters."""

import contextlib
import ctypes
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from tempfile import TemporaryDirectory
from typing import Any

import pgmo
from tests.unit.allocator.simulated import Oracle


class Subject(ABC):
    """A program that allocates through one framework.

    Each block is checked for overlaps with live blocks, filled, and checked for its bytes before it
    is freed.

    Attributes:
        alignment: alignment of every address, in bytes.
        streams: handles of streams to allocate on; the first one is the default stream.
        program: Python code that makes the same subject as `subject` in another process; "" if a
            process that ends frees no block.
        memory: whether the process can access the blocks' bytes.
    """

    alignment: int
    streams: tuple[Any, ...] = (0,)
    program = ""
    memory = True

    def __init__(self) -> None:
        self._oracle = Oracle()
        self._blocks: dict[int, tuple[Any, int, int]] = {}
        self._made = 0

    # --- methods that differ ---------------------------------------------------------------------

    @abstractmethod
    def session(self, **options: Any) -> Any:
        """Return a session that is not open yet."""

    def on(self, stream: Any) -> AbstractContextManager[object]:
        """Return a context in which a stream is the current one."""
        return contextlib.nullcontext()

    @abstractmethod
    def allocate(self, size: int) -> Any:
        """Allocate a block of `size` bytes."""

    @abstractmethod
    def address(self, block: Any) -> int:
        """Return the address of a block, or 0 for a block of no bytes."""

    def let_go(self, block: Any) -> None:  # noqa: B027 (most blocks need none)
        """Free a block if the end of its last reference does not."""

    # --- methods for programs --------------------------------------------------------------------

    def request(self, size: int, stream: Any = None) -> int:
        """Request a block, and return its address."""
        with contextlib.nullcontext() if stream is None else self.on(stream):
            block = self.allocate(size)
        address = self.address(block)
        assert address % self.alignment == 0
        self._oracle.add(address, size)
        self._made += 1
        value = self._made % 251
        if self.memory:
            ctypes.memset(address, value, size)
        self._blocks[address] = block, size, value
        return address

    def free(self, address: int) -> None:
        """Check the bytes of a block, and free it."""
        block, size, value = self._blocks.pop(address)
        if self.memory:
            assert ctypes.string_at(address, size) == bytes([value]) * size
        self._oracle.remove(address)
        self.let_go(block)

    def free_all(self) -> None:
        """Free all live blocks."""
        for address in list(self._blocks):
            self.free(address)


class TorchCpu(Subject):
    """A program with tensors on the CPU."""

    alignment = 64
    program = "from tests.conformance.subjects import TorchCpu\nsubject = TorchCpu()\n"

    def session(self, **options: Any) -> Any:
        return pgmo.optimize(device="cpu", tags=False, **options)

    def allocate(self, size: int) -> Any:
        import torch

        return torch.empty(size, dtype=torch.uint8)

    def address(self, block: Any) -> int:
        return int(block.data_ptr())


class TorchCuda(TorchCpu):
    """A program with tensors on a CUDA device or the stub runtime."""

    alignment = 512
    memory = False  # the host cannot access it
    program = "from tests.conformance.subjects import TorchCuda\nsubject = TorchCuda()\n"

    def __init__(self) -> None:
        import torch

        super().__init__()
        self._plans = TemporaryDirectory()
        self.streams = (torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream())

    def session(self, **options: Any) -> Any:
        # Saved plans serve from the first iteration on.
        if "plan" not in options:
            options.setdefault("save", self._plans.name)
        return pgmo.optimize(device="cuda", tags=False, **options)

    def on(self, stream: Any) -> AbstractContextManager[object]:
        import torch

        return torch.cuda.stream(stream)

    def allocate(self, size: int) -> Any:
        import torch

        return torch.empty(size, dtype=torch.uint8, device="cuda")


class Cupy(Subject):
    """A program with arrays of CuPy, or of a replacement.

    Args:
        cupy: the module.
        streams: streams to allocate on; the first one is the default stream.
    """

    alignment = 512
    memory = False
    program = (
        "import cupy\n"
        "from tests.conformance.subjects import Cupy\n"
        "subject = Cupy(cupy, (cupy.cuda.Stream.null,))\n"
    )

    def __init__(self, cupy: Any, streams: tuple[Any, ...]) -> None:
        super().__init__()
        self._cupy, self.streams = cupy, streams

    def session(self, **options: Any) -> Any:
        return pgmo.optimize(framework="cupy", tags=False, **options)

    def on(self, stream: Any) -> AbstractContextManager[object]:
        return stream

    def allocate(self, size: int) -> Any:
        return self._cupy.cuda.get_allocator()(size)

    def address(self, block: Any) -> int:
        return int(block.ptr)


class FakeCupy(Cupy):
    """A program with arrays of `fake_cupy`."""

    program = (
        "import sys\n"
        "from tests.conformance.subjects import FakeCupy\n"
        "from tests.unit import fake_cupy\n"
        "sys.modules['cupy'] = fake_cupy.make()\n"
        "subject = FakeCupy(sys.modules['cupy'])\n"
    )

    def __init__(self, cupy: Any) -> None:
        super().__init__(cupy, tuple(map(cupy.cuda.Stream, (0, 4096, 8192))))


class CupyThroughTorch(Cupy):
    """A program with arrays of `fake_cupy` in a session for PyTorch on CUDA."""

    program = ""

    def __init__(self, cupy: Any, streams: tuple[Any, ...]) -> None:
        super().__init__(cupy, streams)
        self._plans = TemporaryDirectory()

    session = TorchCuda.session
