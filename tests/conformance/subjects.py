"""Adapters with their frameworks, as the suite sees them: blocks by address, and sessions."""

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

    Every block is compared with all that are alive, and filled; its bytes are intact at its end.

    Attributes:
        alignment: of every address, in bytes.
        streams: handles to allocate on; the first is the default stream.
        program: Python code that makes the same subject in a process of its own, as `subject`;
            "" where a process that ends frees nothing.
        memory: whether there are bytes behind the addresses.
    """

    alignment: int
    streams: tuple[Any, ...] = (0,)
    program = ""
    memory = True

    def __init__(self) -> None:
        self._oracle = Oracle()
        self._blocks: dict[int, tuple[Any, int, int]] = {}
        self._made = 0

    # --- what differs ---------------------------------------------------------------------------

    @abstractmethod
    def session(self, **options: Any) -> Any:
        """A session that is not open yet."""

    def on(self, stream: Any) -> AbstractContextManager[object]:
        """Another current stream."""
        return contextlib.nullcontext()

    @abstractmethod
    def allocate(self, size: int) -> Any:
        """What a tensor or an array is made of."""

    @abstractmethod
    def address(self, block: Any) -> int:
        """Where it is; 0 for a block of no bytes."""

    def let_go(self, block: Any) -> None:  # noqa: B027 (most blocks need none)
        """Ends it, where it does not end by itself with the last reference."""

    # --- for programs ---------------------------------------------------------------------------

    def request(self, size: int, stream: Any = None) -> int:
        """Requests a block; returns its address."""
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
        """Ends a block."""
        block, size, value = self._blocks.pop(address)
        if self.memory:
            assert ctypes.string_at(address, size) == bytes([value]) * size
        self._oracle.remove(address)
        self.let_go(block)

    def free_all(self) -> None:
        """Ends whatever is alive."""
        for address in list(self._blocks):
            self.free(address)


class TorchCpu(Subject):
    """Tensors on the CPU."""

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
    """Tensors on a CUDA device, or on the stub of its runtime."""

    alignment = 512
    memory = False  # not of the host
    program = "from tests.conformance.subjects import TorchCuda\nsubject = TorchCuda()\n"

    def __init__(self) -> None:
        import torch

        super().__init__()
        self._plans = TemporaryDirectory()
        self.streams = (torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream())

    def session(self, **options: Any) -> Any:
        # Plans that are saved serve at once, and leave nothing to the framework's idle memory.
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
    """CuPy, itself or replaced.

    Args:
        cupy: the module.
        streams: handles to allocate on.
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
    """CuPy with its driver replaced."""

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
    """CuPy, replaced, through PyTorch's CUDA allocator: one session serves both."""

    program = ""

    def __init__(self, cupy: Any, streams: tuple[Any, ...]) -> None:
        super().__init__(cupy, streams)
        self._plans = TemporaryDirectory()

    session = TorchCuda.session
