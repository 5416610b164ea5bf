"""PyTorch on CUDA: installs the adapter of csrc/adapters/torch_cuda.cpp under `torch`."""

import ctypes
import os
from dataclasses import replace
from functools import cache

import numpy as np

from pgmo import _core
from pgmo.allocator.adapters.adapter import Adapter, Memory, new_engine
from pgmo.allocator.adapters.baseline import Baseline, baseline_of, observe
from pgmo.allocator.adapters.device_memory import DeviceMemory
from pgmo.allocator.adapters.managed_hints import Hints
from pgmo.allocator.adapters.optimizer_state import tell_of_states
from pgmo.allocator.adapters.torch_cuda_source import (
    adapter_source,
    split_blocks,
    torch_with_cuda,
)
from pgmo.allocator.build.library import AdapterLibrary, load_adapter
from pgmo.error_frames import held
from pgmo.errors import AdapterError

ALIGNMENT = 512
"""Of every block, in bytes: what PyTorch's own CUDA allocator gives."""

_ERROR_PATIENCE = 50
"""Milliseconds that a request which fails waits for another thread to drop an earlier error.

Once for each such request, and only while an error is held. An `except` clause that requests again
holds its error for longer, and pays this much.
"""

_FOREIGN = 0
"""Kind of a living block: the framework's."""


class TorchCuda(Adapter):
    """The engine under PyTorch's CUDA allocator, for one device. See `torch_cuda`."""

    name = "torch"
    alignment = ALIGNMENT

    def __init__(self, index: int, seat: int = 0) -> None:
        import torch

        self.index = index
        self.seat = seat
        self.device = f"cuda:{index}"
        self.version = str(torch.__version__)
        self.library = adapter_library()
        self.pages = False
        self._limit = 0
        self._displaced_before = 0
        self.engine = new_engine()
        self.library.call(
            "pgmo_connect",
            index,
            ctypes.c_void_p(_core.engine_api()),
            ctypes.c_void_p(self.engine.handle),
        )

    def choose_pages(self, wanted: bool, limit: int) -> None:
        """Return whether the next session has pages: they are wanted, and the device has them."""
        self.pages = wanted and pages_wanted()
        self.pages = self.pages and bool(self.library.ask("pgmo_open_pages", self.index))
        self._limit = limit

    @property
    def steps_aside(self) -> str:
        """Why PyTorch's allocator serves everything by itself: it is the driver's own."""
        import torch

        if torch.cuda.memory.get_allocator_backend() != "cudaMallocAsync":
            return ""
        return (
            "PyTorch uses the driver's memory pool (backend:cudaMallocAsync), and an arena beside "
            "it would take more memory. Remove that setting, or use pages=False"
        )

    def install(self) -> None:
        """Wraps torch's current CUDA allocator; nothing happens if that is ours already.

        Raises:
            AdapterError: when it cannot be wrapped, with the reason.
        """
        import torch

        torch.cuda.init()  # type: ignore[no-untyped-call]
        self.library.call("pgmo_install")
        self.library.call("pgmo_attend", self.index, 1)
        self._displaced_before = self.library.ask("pgmo_displacements")
        self.library.ask("pgmo_serve_pages", self.index, int(self.pages))
        if not self._has_company:
            self.take_turn()
        if self.pages:
            self.engine.use_pages(self.space)
            if not self._has_company:
                self._use_gaps()
            if self._limit or not self._has_company:
                self.library.call("pgmo_limit_pages", self.index, ctypes.c_uint64(self._limit))
            tell_of_states(expect_lasting)
        _open.add((self.index, self.seat))

    @property
    def note(self) -> str:
        """Says that somebody has taken the place in which the order of streams is heard of."""
        if self.library.ask("pgmo_displacements") == self._displaced_before:
            return ""
        return (
            "torch._C._activate_gpu_trace was called while the session was open, and for a moment "
            "the program's events were not heard: streams share no page on what was known of them "
            "before; the next recording knows all"
        )

    @property
    def _has_company(self) -> bool:
        """Return whether a session is open on the device."""
        return any(index == self.index for index, _ in _open)

    def _use_gaps(self) -> None:
        gaps = np.array(split_blocks(self.index), np.uint64)
        self.library.ask(
            "pgmo_use_splits",
            self.index,
            gaps.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(len(gaps)),
        )

    def another(self) -> "TorchCuda":
        """The adapter of one more session on the device, with an engine of its own.

        Raises:
            AdapterError: when there are too many.
        """
        taken = {seat for index, seat in _open if index == self.index}
        return torch_cuda(self.index, min(set(range(len(taken) + 1)) - taken))

    def take_turn(self) -> None:
        """Have this engine serve all requests on the device from now on."""
        self.library.ask("pgmo_take_turn", self.index, ctypes.c_void_p(self.engine.handle))

    def uninstall(self) -> None:
        """Takes the adapter away again. Tensors made under it stay valid and free their blocks.

        Raises:
            AdapterError: when somebody has put another allocator on top meanwhile.
        """
        _open.discard((self.index, self.seat))
        if self._has_company:
            return
        # What waits for other streams is waited for, since nobody will ask for it from now on.
        self.library.call("pgmo_attend", self.index, 0)
        if _open:
            return  # a session on another device goes on
        for adapter in _adapters.values():
            adapter.remember_survivors()
        self.library.call("pgmo_uninstall")
        for adapter in _adapters.values():
            if adapter._limit:
                self.library.call("pgmo_limit_pages", adapter.index, ctypes.c_uint64(0))
            self.library.ask("pgmo_serve_pages", adapter.index, 0)

    def remember_survivors(self) -> None:
        """Tells the adapter which of torch's own blocks will come back through it."""
        living = self.engine.living()
        foreign = np.ascontiguousarray(living["address"][living["kind"] == _FOREIGN], np.uint64)
        self.library.ask(
            "pgmo_survive",
            self.index,
            foreign.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(len(foreign)),
        )

    def take_arena(self, size: int, stream: int) -> Memory | None:
        """Takes one block of `size` bytes for a stream from the allocator beneath.

        Raises:
            AdapterError: when the allocator beneath has not so much memory.
        """
        if not self.library.ask("pgmo_knows_stream", self.index, ctypes.c_uint64(stream)):
            return None
        if self.pages:
            memory = Memory(*self.engine.reserve_arena(self.space, size, stream))
            if not memory.base:
                raise AdapterError(f"no {size} bytes of addresses can be had")
            return memory
        memory = Memory()
        self.library.call(
            "pgmo_take_arena",
            self.index,
            ctypes.c_uint64(stream),
            ctypes.c_size_t(size),
            ctypes.byref(memory),
        )
        return memory

    def take_spill(self, size: int) -> Memory:
        """Takes one block of unified memory, which stays on the host.

        Raises:
            AdapterError: when the device cannot use any beyond its own, or there is not so much.
        """
        self.card().require_managed()
        memory = Memory()
        self.library.call(
            "pgmo_take_spill", self.index, ctypes.c_size_t(size), ctypes.byref(memory)
        )
        Hints(self.index).keep_on_host(memory.base, memory.bytes)
        return memory

    def card(self) -> DeviceMemory:
        """The device's memory now.

        Raises:
            AdapterError: when the device does not answer.
        """
        out = (ctypes.c_uint64 * 3)()
        self.library.call("pgmo_card", self.index, out)
        return DeviceMemory(self.device, free=out[0], total=out[1], concurrent=bool(out[2]))

    def empty_cache(self, *, pages: bool = False) -> None:
        """Returns cached memory to the driver, so that recording and replay never hold both."""
        self.library.ask("pgmo_poll", self.index)
        if pages or not self.pages:  # those go where they are needed
            self.library.call("pgmo_empty_cache")

    @property
    def space(self) -> int:
        """The handle of the device's pages."""
        return self.library.pointer("pgmo_space_of", self.index)

    def baseline(self) -> Baseline | None:
        """Return what plain PyTorch would have reserved, and what pgmo took; None: no model."""
        figures = baseline_of(self.library, self.index)
        return figures and replace(figures, slept=self.index in _SLEPT)

    def note_sleep(self) -> None:
        """Note that pages of living blocks are given back, so that less is taken than lives."""
        _SLEPT.add(self.index)

    def synchronize(self) -> None:
        """Waits for all that the device was told to do."""
        import torch

        torch.cuda.synchronize(self.index)

    def copy(self, to: int, source: int, size: int) -> None:
        """Copies bytes between the device and the host, behind what was submitted before.

        Raises:
            AdapterError: when CUDA refuses, as for an address under which there is no page.
        """
        self.library.call(
            "pgmo_copy",
            self.index,
            ctypes.c_void_p(to),
            ctypes.c_void_p(source),
            ctypes.c_size_t(size),
        )

    def advise(self, text: str) -> None:
        """Set the text that out-of-memory errors add."""
        self.library.ask("pgmo_set_advice", self.index, ctypes.c_char_p(text.encode()))


_adapters: dict[tuple[int, int], TorchCuda] = {}
"""By device and seat: each session that is open on a device has one, and all share its pages."""

_SLEPT: set[int] = set()
"""Devices on which pages of living blocks were given back at any time."""

_open: set[tuple[int, int]] = set()
"""Those with an open session: the adapter serves them all."""


def torch_cuda(index: int | None = None, seat: int = 0) -> TorchCuda:
    """The adapter of one device in this process, compiled and loaded on first use.

    Args:
        index: of the device; None for the current one.
        seat: of the session, among those that are open there.

    Raises:
        AdapterError: when torch, CUDA, a compiler or headers are missing, or compiling fails.
    """
    torch = torch_with_cuda()
    if index is None:
        index = int(torch.cuda.current_device())
    if not 0 <= index < torch.cuda.device_count():
        raise AdapterError(
            f"there is no device cuda:{index}; this machine has {torch.cuda.device_count()}"
        )
    if (index, seat) not in _adapters:
        _adapters[index, seat] = TorchCuda(index, seat)
    return _adapters[index, seat]


def expect_lasting(on: bool) -> None:
    """Expect requests from now on to stay alive for good, or not, on any device."""
    adapter_library().ask("pgmo_expect_lasting", int(on))


@cache
def adapter_library() -> AdapterLibrary:
    """The compiled adapter, loaded once.

    Raises:
        AdapterError: when it cannot be had.
    """
    library = load_adapter(adapter_source())
    library.call("pgmo_know_pages", ctypes.c_void_p(_core.pages_api()), 0)
    observe(library)
    library.ask("pgmo_watch_errors", ctypes.byref(held), ctypes.c_uint32(_ERROR_PATIENCE))
    return library


def pages_wanted() -> bool:
    """Return whether memory is served from pages, which `PGMO_PAGES=0` forbids."""
    return os.environ.get("PGMO_PAGES", "1") != "0"


def serve_without_session() -> None:
    """Serves all devices from pages from now on, to the end of the process; CUDA is initialized.

    Raises:
        AdapterError: when the adapter cannot be had.
    """
    library = adapter_library()
    library.call("pgmo_know_pages", ctypes.c_void_p(_core.pages_api()), 1)
    library.call("pgmo_install")
