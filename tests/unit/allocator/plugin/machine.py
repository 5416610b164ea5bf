"""A machine with CUDA devices that exist only as numbers, and torch's side of the plug-in."""

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from pgmo import _core
from pgmo.allocator.compile import find_compiler
from pgmo.allocator.torch_plugin import TorchPlugin
from tests.unit.allocator.simulated import Oracle

MIB = 1 << 20
SIDE, OTHER = 0x500, 0x400
"""Handles of two streams besides the default one."""

HERE = Path(__file__).parent
_TEXT = 4096


class Libraries:
    """The two libraries, compiled; the plug-in takes the first one for the CUDA driver."""

    def __init__(self, folder: Path) -> None:
        self.driver = _compiled("fake_libcuda", folder)
        self.torch = _compiled("fake_torch", folder)
        os.environ["PGMO_LIBCUDA"] = str(self.driver)  # read at the plug-in's first request
        self.cuda = ctypes.CDLL(str(self.driver))
        for name, result in (
            ("fake_used", ctypes.c_size_t),
            ("fake_cached", ctypes.c_size_t),
            ("fake_threshold", ctypes.c_uint64),
            ("fake_retained", ctypes.c_uint64),
            ("fake_stream", ctypes.c_void_p),
        ):
            getattr(self.cuda, name).restype = result
        self.caller = ctypes.CDLL(str(self.torch))
        self.caller.torch_alloc.restype = ctypes.c_void_p
        self.plugin = ctypes.CDLL(_core.__file__)
        self.plugin.pgmo_plugin_base.restype = ctypes.c_void_p
        self._ordinals = count(1)

    def device(self) -> "Machine":
        """A device that nothing has used so far."""
        return Machine(self, next(self._ordinals))


class Machine:
    """One device, used as torch does."""

    def __init__(self, libraries: Libraries, ordinal: int) -> None:
        self.cuda, self.plugin, self.caller = libraries.cuda, libraries.plugin, libraries.caller
        self.ordinal = ordinal
        self._blocks: dict[int, tuple[int, int]] = {}

    # --- what torch does ------------------------------------------------------------------------

    def alloc(self, size: int, stream: int = 0) -> int:
        """The block's address, 0 for none; errors as torch shows them."""
        text = ctypes.create_string_buffer(_TEXT)
        address = self.caller.torch_alloc(
            *(self.plugin.pgmo_plugin_alloc, ctypes.c_size_t(size), self.ordinal),
            *(ctypes.c_void_p(stream), text, ctypes.c_size_t(_TEXT)),
        )
        if text.value:
            raise RuntimeError(text.value.decode())
        if address:
            self._blocks[address] = (size, stream)
        return address or 0

    def free(self, address: int) -> None:
        size, stream = self._blocks.pop(address)
        self.plugin.pgmo_plugin_free(
            ctypes.c_void_p(address), ctypes.c_size_t(size), self.ordinal, ctypes.c_void_p(stream)
        )

    def record_stream(self, address: int, stream: int) -> None:
        self.plugin.pgmo_plugin_record_stream(ctypes.c_void_p(address), ctypes.c_void_p(stream))

    def begin_pool(self, pool: int, stream: int) -> None:
        self.caller.torch_begin(
            *(self.plugin.pgmo_plugin_begin_pool, self.ordinal),
            *(ctypes.c_ulonglong(pool), ctypes.c_void_p(stream)),
        )

    def end_pool(self, pool: int) -> None:
        end = self.plugin.pgmo_plugin_end_pool
        self.caller.torch_end(end, self.ordinal, ctypes.c_ulonglong(pool))

    def release_pool(self, pool: int) -> None:
        release = self.plugin.pgmo_plugin_release_pool
        self.caller.torch_end(release, self.ordinal, ctypes.c_ulonglong(pool))

    def set_fraction(self, fraction: float) -> None:
        failed = self.caller.torch_fraction(
            self.plugin.pgmo_plugin_memory_fraction, ctypes.c_double(fraction), self.ordinal
        )
        if failed:
            raise RuntimeError("refused")

    def base(self, address: int) -> tuple[int, int]:
        size = ctypes.c_size_t()
        start = self.plugin.pgmo_plugin_base(ctypes.c_void_p(address), ctypes.byref(size))
        return start, size.value

    def poll(self) -> int:
        waiting: int = self.plugin.pgmo_plugin_poll(self.ordinal)
        return waiting

    # --- what the device does -------------------------------------------------------------------

    def capacity(self, size: int) -> None:
        self.cuda.fake_capacity(self.ordinal, ctypes.c_size_t(size))

    def hold(self, stream: int) -> None:
        """The stream's work does not finish."""
        self.cuda.fake_hold(self.ordinal, ctypes.c_void_p(stream))

    def let_go(self, stream: int) -> None:
        self.cuda.fake_let_go(self.ordinal, ctypes.c_void_p(stream))

    def capture(self, stream: int, on: bool) -> None:
        self.cuda.fake_capture(self.ordinal, ctypes.c_void_p(stream), int(on))

    def calls(self, name: str) -> int:
        number: int = self.cuda.fake_calls(name.encode())
        return number

    @contextmanager
    def current(self) -> Iterator[None]:
        """Makes this the calling thread's device."""
        self.cuda.cuCtxPushCurrent_v2(ctypes.c_void_p(self.ordinal + 1))
        yield
        assert self.cuda.fake_contexts() == 1
        self.cuda.cuCtxPopCurrent_v2(None)

    def stream_of(self, address: int) -> int:
        """The stream on which a living block was allocated."""
        stream: int | None = self.cuda.fake_stream(ctypes.c_ulonglong(address))
        return stream or 0

    def is_allocated(self, address: int) -> bool:
        return bool(self.cuda.fake_is_allocated(ctypes.c_ulonglong(address)))

    def used(self) -> int:
        """Bytes of living stream-ordered blocks."""
        amount: int = self.cuda.fake_used(self.ordinal, 0)
        return amount

    def plain(self) -> int:
        """Bytes of living blocks of cuMemAlloc."""
        amount: int = self.cuda.fake_used(self.ordinal, 1)
        return amount

    def violations(self) -> str:
        """What the real driver would have refused since the last call; empty for nothing."""
        text = ctypes.create_string_buffer(_TEXT)
        number = self.cuda.fake_violations(text, ctypes.c_size_t(_TEXT))
        return f"{number}: {text.value.decode()}" if number else ""


class PluginFramework(TorchPlugin):
    """The plug-in as a session sees it, with `Loop`'s way of asking for blocks."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine.ordinal, "0")
        self.machine = machine
        self.oracle = Oracle()

    def request(self, size: int, **stream: Any) -> int:
        address = self.machine.alloc(size, **stream)
        assert address % self.alignment == 0
        self.oracle.add(address, size)
        return address

    def free(self, address: int) -> None:
        self.oracle.remove(address)
        self.machine.free(address)


def attach_arena(framework: PluginFramework, size: int) -> None:
    memory = framework.take_arena(size, 0)
    framework.engine.attach_arena(memory.base, memory.bytes, *memory.owner)


def serve_one_slot(framework: PluginFramework, size: int = 1024) -> int:
    """One request of `size` an iteration has a slot; returns the arena's address."""
    framework.install()
    attach_arena(framework, size)
    framework.engine.add_plan(
        size=[size],
        stream_index=[0],
        varying=[False],
        end=[1],
        offset=[0],
        alternate=[-1],
        streams=[0],
        arena_bytes=size,
        alignment=framework.alignment,
    )
    framework.engine.start_serving()
    base = framework.machine.alloc(size)
    framework.machine.free(base)
    framework.engine.end_iteration()
    return base


def _compiled(name: str, folder: Path) -> Path:
    target = folder / f"lib{name}.so"
    command = [*find_compiler("a test"), "-std=c++20", "-O1", "-shared", "-fPIC", "-pthread"]
    subprocess.run([*command, str(HERE / f"{name}.cpp"), "-o", str(target)], check=True)
    return target
