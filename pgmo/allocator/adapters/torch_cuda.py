"""Adapter for PyTorch on CUDA, from csrc/adapters/torch_cuda.cpp."""

import ctypes
import os
from dataclasses import replace
from functools import cache

import numpy as np

from pgmo import _core
from pgmo.allocator.adapters.adapter import Adapter, Memory, new_engine
from pgmo.allocator.adapters.baseline import Baseline, baseline_of, observe
from pgmo.allocator.adapters.device_memory import DeviceMemory
from pgmo.allocator.adapters.hooks.graph_replays import report_graphs
from pgmo.allocator.adapters.hooks.optimizer_state import report_optimizer_state
from pgmo.allocator.adapters.hooks.pool_registration import report_registrations
from pgmo.allocator.adapters.managed_hints import Hints
from pgmo.allocator.adapters.operator_calls import OperatorCalls
from pgmo.allocator.adapters.torch_source import (
    cuda_source,
    split_blocks,
    torch_with_cuda,
)
from pgmo.allocator.build.library import AdapterLibrary, load_adapter
from pgmo.error_frames import held
from pgmo.errors import AdapterError

ALIGNMENT = 512
"""Alignment of every block in bytes, as in PyTorch's own CUDA allocator."""

_ERROR_PATIENCE = 50
"""Maximum milliseconds that a failing request waits, once, for another thread to drop an earlier
out-of-memory error. The traceback of that error keeps tensors alive. After this time, the request
fails. An `except` clause that allocates while it holds its own error waits for the full time."""

_FOREIGN = 0
"""Kind of a live block that the framework's own allocator served."""


class TorchCuda(Adapter):
    """Adapter of PyTorch's CUDA allocator for one device, made by `torch_cuda`."""

    name = "torch"
    alignment = ALIGNMENT

    def __init__(self, index: int, session_index: int = 0) -> None:
        import torch

        self.index = index
        self.session_index = session_index
        self.device = f"cuda:{index}"
        self.version = str(torch.__version__)
        self.library = adapter_library()
        self.operators = OperatorCalls(self.library)
        self.pages = self._is_open = False
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
        """Use pages in the next session if they are wanted and the device supports them."""
        self.pages = wanted and pages_wanted()
        self.pages = self.pages and bool(self.library.ask("pgmo_open_pages", self.index))
        self._limit = limit

    @property
    def delegation_reason(self) -> str:
        """Reason to serve no requests, if PyTorch uses the driver's own pool; else ""."""
        import torch

        if torch.cuda.memory.get_allocator_backend() != "cudaMallocAsync":
            return ""
        return (
            "PyTorch uses the driver's memory pool (backend:cudaMallocAsync), and an arena beside "
            "it would take more memory. Remove that setting, or use pages=False"
        )

    def install(self) -> None:
        """Wrap torch's current CUDA allocator, unless pgmo has wrapped it; begin the session."""
        import torch

        torch.cuda.init()  # type: ignore[no-untyped-call]
        self.library.call("pgmo_install")
        self.library.call("pgmo_attend", self.index, 1)
        self._displaced_before = self.library.ask("pgmo_displacements")
        self.library.ask("pgmo_serve_pages", self.index, int(self.pages))
        if not self._has_open_session:
            self.take_turn()
        if self.pages:
            self.engine.use_pages(self.space)
            if not self._has_open_session:
                self._ask_with("pgmo_use_splits", np.array(split_blocks(self.index), np.uint64))
            if self._limit or not self._has_open_session:
                self.library.call("pgmo_limit_pages", self.index, ctypes.c_uint64(self._limit))
            report_optimizer_state(self.library)
        self._is_open = True

    @property
    def requested_bytes(self) -> int:
        """Bytes of all requests of the process on this device, in PyTorch's statistics."""
        import torch

        statistics = torch.cuda.memory_stats_as_nested_dict(self.index)
        return int(statistics["requested_bytes"]["all"]["allocated"])

    @property
    def note(self) -> str:
        """Note for the summary if the program replaced pgmo's trace of stream order; else ""."""
        if self.library.ask("pgmo_displacements") == self._displaced_before:
            return ""
        return (
            "torch._C._activate_gpu_trace was called while the session was open, so pgmo missed "
            "some of the program's events: until the next recording, streams do not share pages "
            "by the recorded order"
        )

    @property
    def _has_open_session(self) -> bool:
        return any(one._is_open and one.index == self.index for one in _all_adapters())

    def _ask_with(self, function: str, values: "np.ndarray") -> None:
        """Pass an array of 64-bit integers and its length to a function of the adapter."""
        address = values.ctypes.data_as(ctypes.c_void_p)
        self.library.ask(function, self.index, address, ctypes.c_size_t(len(values)))

    def for_another_session(self) -> "TorchCuda":
        """Return an unused adapter with its own engine, for one more session on the device."""
        same = [one for one in _all_adapters() if one.index == self.index]
        free = next((one for one in same if not one._is_open), None)
        return free or torch_cuda(self.index, len(same))

    def take_turn(self) -> None:
        """Make this engine serve all requests on the device from now on."""
        self.library.ask("pgmo_take_turn", self.index, ctypes.c_void_p(self.engine.handle))

    def uninstall(self) -> None:
        """End the session. Uninstall the adapter if nothing else needs it. Tensors stay valid."""
        self._is_open = False
        if self._has_open_session:
            return
        # Wait for blocks that other streams still use, because no later request will collect them.
        self.library.call("pgmo_attend", self.index, 0)
        if any(one._is_open for one in _all_adapters()):
            return  # a session on another device needs the adapter
        for adapter in _all_adapters():
            adapter._remember_survivors()
        try:
            self.library.call("pgmo_uninstall")
        finally:  # an adapter that stays installed serves no request any more
            for adapter in _all_adapters():
                if adapter._limit:
                    self.library.call("pgmo_limit_pages", adapter.index, ctypes.c_uint64(0))
                self.library.ask("pgmo_serve_pages", adapter.index, 0)

    def _remember_survivors(self) -> None:
        """Register live blocks of torch's own allocator, because they are freed through pgmo."""
        living = self.engine.living()
        foreign = living["address"][living["kind"] == _FOREIGN]
        self._ask_with("pgmo_survive", np.ascontiguousarray(foreign, np.uint64))

    def take_arena(self, size: int, stream: int) -> Memory | None:
        """Reserve addresses for an arena; without pages, allocate a block of the framework."""
        if not self.library.ask("pgmo_knows_stream", self.index, ctypes.c_uint64(stream)):
            return None
        if self.pages:
            memory = Memory(*self.engine.reserve_arena(self.space, size, stream))
            if not memory.base:
                raise AdapterError(f"cannot reserve {size} bytes of addresses")
            return memory
        memory = Memory()
        wanted = ctypes.c_uint64(stream), ctypes.c_size_t(size)
        self.library.call("pgmo_take_arena", self.index, *wanted, ctypes.byref(memory))
        return memory

    def take_spill(self, size: int) -> Memory:
        """Allocate a block of unified memory that stays on the host."""
        self.card().require_managed()
        memory = Memory()
        self.library.call(
            "pgmo_take_spill", self.index, ctypes.c_size_t(size), ctypes.byref(memory)
        )
        Hints(self.index).keep_on_host(memory.base, memory.bytes)
        return memory

    def card(self) -> DeviceMemory:
        """Return the device's free and total memory now."""
        out = (ctypes.c_uint64 * 3)()
        self.library.call("pgmo_card", self.index, out)
        return DeviceMemory(self.device, free=out[0], total=out[1], concurrent=bool(out[2]))

    def empty_cache(self, *, pages: bool = False) -> None:
        """Return cached memory and idle pages to the driver.

        A session with pages does this only if `pages` is set, because arenas reuse idle pages.
        """
        self.library.ask("pgmo_poll", self.index)
        if pages or not self.pages:
            self.library.call("pgmo_empty_cache")

    def free_idle(self) -> None:
        """Return all idle memory to the driver, including idle pages of arenas."""
        for _ in range(2):  # the first call records events, the second finds them completed
            self.empty_cache(pages=True)
        if space := self.space:
            _core.forget_peak(space)  # create no page while an idle one can be reused

    @property
    def space(self) -> int:
        """Handle of the device's page space, as an integer; 0 if the device has no pages."""
        return self.library.pointer("pgmo_space_of", self.index)

    def baseline(self) -> Baseline | None:
        """Return the device's figures for plain PyTorch and pgmo; None if there is no model."""
        return device_baseline(self.index)

    def note_sleep(self) -> None:
        """Record that pages of live blocks were unmapped, so live bytes may exceed taken bytes."""
        _SLEPT.add(self.index)

    def synchronize(self) -> None:
        """Wait for all work queued on the device."""
        import torch

        torch.cuda.synchronize(self.index)

    def copy(self, to: int, source: int, size: int) -> None:
        """Copy bytes between device and host, after all work that was submitted earlier."""
        ends = ctypes.c_void_p(to), ctypes.c_void_p(source)
        self.library.call("pgmo_copy", self.index, *ends, ctypes.c_size_t(size))

    def advise(self, text: str) -> None:
        """Set the text to append to out-of-memory errors."""
        self.library.ask("pgmo_set_advice", self.index, ctypes.c_char_p(text.encode()))


_adapters: dict[tuple[int, int], TorchCuda] = {}
"""Adapters by device and session index. Adapters of the same device share its pages."""

_SLEPT: set[int] = set()
"""Devices on which pages of live blocks were ever unmapped."""


def _all_adapters() -> list[TorchCuda]:
    """Return a copy of the adapters: another thread may make one for another device meanwhile."""
    return list(_adapters.values())


def torch_cuda(index: int | None = None, session_index: int = 0) -> TorchCuda:
    """Return this process's adapter of a device. The first call may compile it.

    Args:
        index: index of the device; None for the current device.
        session_index: number of the session on the device, from 0.

    Raises:
        AdapterError: if torch, CUDA or the device is missing, or the adapter cannot be compiled.
    """
    torch = torch_with_cuda()
    if index is None:
        index = int(torch.cuda.current_device())
    if not 0 <= index < torch.cuda.device_count():
        raise AdapterError(
            f"there is no device cuda:{index}; PyTorch finds {torch.cuda.device_count()}"
        )
    if (index, session_index) not in _adapters:
        _adapters[index, session_index] = TorchCuda(index, session_index)
    return _adapters[index, session_index]


def device_baseline(index: int) -> Baseline | None:
    """Return a device's figures for plain PyTorch and pgmo; None if there is no model."""
    figures = baseline_of(adapter_library(), index)
    return figures and replace(figures, slept=index in _SLEPT)


@cache
def adapter_library() -> AdapterLibrary:
    """Return the adapter's library. The first call compiles it if needed, and loads it."""
    library = load_adapter(cuda_source())
    library.call("pgmo_know_pages", ctypes.c_void_p(_core.pages_api()), 0)
    observe(library)
    library.ask("pgmo_watch_errors", ctypes.byref(held), ctypes.c_uint32(_ERROR_PATIENCE))
    report_graphs(library)
    report_registrations(library)
    return library


def pages_wanted() -> bool:
    """Return whether pages may serve memory; `PGMO_PAGES=0` forbids it."""
    return os.environ.get("PGMO_PAGES", "1") != "0"


def serve_without_session() -> None:
    """Let pages serve requests until the process ends. CUDA must be initialized."""
    use_pages_always()
    adapter_library().call("pgmo_install")


_always = False
"""Whether pages serve requests while no session is open."""


def use_pages_always() -> None:
    """Let pages serve requests from now on, even while no session is open."""
    global _always
    adapter_library().call("pgmo_know_pages", ctypes.c_void_p(_core.pages_api()), 1)
    _always = True


def has_pages_always() -> bool:
    """Return whether pages serve requests even while no session is open."""
    return _always
