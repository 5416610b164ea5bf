"""Profiles what CuPy allocates by a memory hook: its allocator stays exactly as it is.

    with cupy_recorder() as recorder:
        for batch in loader:
            step(batch)
            recorder.step()
    recorder.profile().save("loop.pgmoprof")

CuPy calls hooks from its memory pools, for the thread that has entered them. So nothing is seen of
other threads, of allocators that are no such pool (`malloc_async`, `MemoryAsyncPool`, RMM), and of
what a pgmo session serves. A block that another thread frees ends when its address comes again, at
the latest.
"""

import threading
import time
from datetime import UTC, datetime
from typing import Any, Self

from pgmo.errors import ProfileError, SessionError
from pgmo.profiler.iterations.from_trace import profile_of
from pgmo.profiler.profile import Profile, ProfileMeta
from pgmo.profiler.tagging.cupy_module import cupy_device, imported_cupy
from pgmo.profiler.trace import Event, Trace
from pgmo.version import __version__


class CupyRecorder:
    """Notes what CuPy's pools hand out and get back on one device. See `cupy_recorder`.

    Args:
        cupy: the module.
        device: number of the device.
        model_name: for the profile.
    """

    def __init__(self, cupy: Any, device: int, model_name: str = "") -> None:
        self._cupy = cupy
        self._device = device
        self._model_name = model_name
        self._hook = _hook(cupy, self)
        self._owner = 0
        self._begin = 0
        self._rows: list[tuple[int, int, int, int, int]] = []
        self._numbers: dict[int, int] = {0: 0, 1: 0}
        self._living: dict[int, tuple[int, int]] = {}  # by address: bytes and stream

    def __enter__(self) -> Self:
        if self._owner:
            raise SessionError("this recorder has been entered already; make another one")
        self._hook.__enter__()
        self._owner = threading.get_ident()
        self._begin = time.perf_counter_ns()
        return self

    def __exit__(self, *error: Any) -> None:
        self._hook.__exit__(*error)

    def step(self) -> None:
        """Ends an iteration: call it once at the end of each.

        Without it, iterations are looked for in the requests.
        """
        self._note(Event.MARK, 0, 0, 0)

    def trace(self) -> Trace:
        """What has been seen so far.

        Raises:
            ProfileError: when that is nothing.
        """
        if not any(kind == Event.ALLOC for kind, *_ in self._rows):
            raise ProfileError(
                f"CuPy's memory pools handed out nothing on cuda:{self._device}: hooks see neither "
                "other threads nor malloc_async, MemoryAsyncPool, other libraries' allocators and "
                'pgmo\'s own slots; record with pgmo.optimize(framework="cupy", record_only=True)'
            )
        kind, address, size, stream, moment = zip(*self._rows, strict=True)
        return Trace.from_columns(
            kind=kind, address=address, size=size, stream=stream, time=moment, device=self._device
        )

    def profile(self) -> Profile:
        """One iteration of what has been seen, or all of it where nothing repeats.

        Raises:
            ProfileError: when nothing has been seen.
        """
        meta = ProfileMeta(
            framework="cupy",
            framework_version=str(self._cupy.__version__),
            pgmo_version=__version__,
            device=f"cuda:{self._device}",
            model=self._model_name,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            notes={"found": "by a memory hook of CuPy"},
        )
        return profile_of(self.trace(), meta)

    def requested(self, device: int, address: int, size: int) -> None:
        """A pool has handed out a block."""
        if device != self._device or not address:
            return  # another device's; empty; or there was no memory
        if address in self._living:
            self.freed(device, address)  # by another thread
        self._living[address] = size, self._stream()
        self._note(Event.ALLOC, address, *self._living[address])

    def freed(self, device: int, address: int) -> None:
        """A pool has got a block back."""
        if device == self._device and address in self._living:
            block = self._living.pop(address)
            self._note(Event.FREE_REQUESTED, address, *block)
            self._note(Event.FREE_COMPLETED, address, *block)

    def _note(self, kind: Event, address: int, size: int, stream: int) -> None:
        moment = (time.perf_counter_ns() - self._begin) // 1000
        self._rows.append((int(kind), address, size, stream, moment))

    def _stream(self) -> int:
        """Numbers in order of first use, as a session gives them."""
        handle = int(self._cupy.cuda.get_current_stream(self._device).ptr)
        return self._numbers.setdefault(handle, len(set(self._numbers.values())))


def cupy_recorder(device: int | None = None, *, model_name: str = "") -> CupyRecorder:
    """Makes a recorder, to be entered by `with` in the thread that runs the program.

    Args:
        device: number of the device; None for the current one.
        model_name: for the profile.

    Raises:
        AdapterError: when CuPy or the device is missing.
    """
    cupy = imported_cupy()
    return CupyRecorder(cupy, cupy_device(cupy, device), model_name)


def _hook(cupy: Any, recorder: CupyRecorder) -> Any:
    class PgmoHook(cupy.cuda.MemoryHook):  # type: ignore[misc]
        """Tells the recorder of the pools' blocks."""

        name = f"pgmo-{id(recorder)}"  # hooks of one name exclude each other

        def malloc_postprocess(self, **event: int) -> None:
            recorder.requested(event["device_id"], event["mem_ptr"], event["size"])

        def free_postprocess(self, **event: int) -> None:
            recorder.freed(event["device_id"], event["mem_ptr"])

    return PgmoHook()
