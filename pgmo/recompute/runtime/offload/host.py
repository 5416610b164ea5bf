"""Transfers of values to the host and back, concurrent with the operators of a step.

    operators      matmul    |           gelu   |  ...  |          mul    |
    transfers           send |----------->      |       | fetch---------> |
                                         sent: memory is freed        arrived: may be read

Transfers run one after the other on a stream of their own, as planned. Memory is allocated and
freed in program order, so the peak is as planned. A sent value lives until the operators' stream
waits for its copy. A fetched value lives from the start of its copy on. If the step runs on a CPU,
transfers are synchronous copies.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pgmo.locks import new_lock
from pgmo.recompute.capture.compat import Runner
from pgmo.recompute.runtime.offload.pinned import PinnedBufferPool

_GRAIN = 512  # Alignment of values in the arena, in bytes.

_streams: dict[torch.device, torch.cuda.Stream] = {}
_lock = new_lock()


def _stream_of(device: torch.device) -> torch.cuda.Stream:
    with _lock:
        if device not in _streams:
            _streams[device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        return _streams[device]


class HostArenas:
    """Host memory of one planned step, with an arena for each call in progress.

    Values do not share memory, because all values are on the host between the passes.

    Attributes:
        size: bytes of an arena.
    """

    def __init__(self) -> None:
        self.size = 0
        self._places: dict[str, int] = {}
        self._pool: PinnedBufferPool | None = None
        self._in_flight: dict[tuple[int, int], tuple[torch.cuda.Event, Tensor]] = {}

    def place(self, name: str, size: int) -> int:
        """Return the offset of node `name`'s value in bytes; all arenas have the same offsets."""
        if name not in self._places:
            self._places[name] = self.size
            self.size += -(-size // _GRAIN) * _GRAIN
        return self._places[name]

    def lend(self, device: torch.device) -> Tensor:
        """Return an arena for one call, shape (size,); BudgetError if host memory runs out."""
        if self._pool is None:
            self._pool = PinnedBufferPool(self.size, device.type == "cuda", _finish)
        return self._pool.lend()

    def guarded(self, run: Runner) -> Runner:
        """Return a runner that waits for transfers and frees their values if `run` raises."""

        def guarded_run(arguments: list[Any]) -> Any:
            try:
                return run(arguments)
            except BaseException:
                self._abandon()
                raise

        return guarded_run

    def _abandon(self) -> None:
        while self._in_flight:
            _, (event, _held) = self._in_flight.popitem()
            event.synchronize()  # The host waits, because other threads may use other streams.

    def send(self, arena: Tensor, value: Tensor, place: int, stride: list[int]) -> Tensor:
        """Start to copy a value to its offset, with the given strides; return the arena."""
        count = _extent(value.shape, stride)
        there = _at(arena, place, count, value.dtype)
        if value.stride() == tuple(stride):
            value = value.as_strided((count,), (1,))  # One copy of the whole range.
        else:
            there = there.as_strided(value.shape, stride)
        if value.device.type == "cuda":
            self._copy(arena, place, there, value, value)
        else:
            there.copy_(value)
        return arena

    def sent(self, arena: Tensor, value: Tensor, place: int) -> Tensor:
        """Let the current stream wait for the copy of a value, which can then be freed."""
        if value.device.type == "cuda":
            self._wait(arena, place, value.device)
        return arena

    def fetch(
        self,
        arena: Tensor,
        place: int,
        shape: list[int],
        stride: list[int],
        dtype: torch.dtype,
        device: torch.device,
    ) -> Tensor:
        """Start to copy a value back into new memory; return the value."""
        count = _extent(shape, stride)
        there = _at(arena, place, count, dtype)
        flat = torch.empty(count, dtype=dtype, device=device)
        if device.type == "cuda":
            self._copy(arena, place, flat, there, flat)
        else:
            flat.copy_(there)
        return flat.as_strided(shape, stride)

    def arrived(self, value: Tensor, arena: Tensor, place: int) -> Tensor:
        """Let the current stream wait for a fetched value; return the value."""
        if value.device.type == "cuda":
            self._wait(arena, place, value.device)
        return value

    def _copy(self, arena: Tensor, place: int, to: Tensor, of: Tensor, held: Tensor) -> None:
        stream = _stream_of(held.device)
        stream.wait_stream(torch.cuda.current_stream(held.device))
        with torch.cuda.stream(stream):
            to.copy_(of, non_blocking=True)
        # An error must not free memory that is being copied.
        self._in_flight[arena.data_ptr(), place] = stream.record_event(), held

    def _wait(self, arena: Tensor, place: int, device: torch.device) -> None:
        in_flight = self._in_flight.pop((arena.data_ptr(), place), None)
        current = torch.cuda.current_stream(device)
        if in_flight is None:
            current.wait_stream(_stream_of(device))
        else:
            current.wait_event(in_flight[0])


def _finish() -> None:
    """Wait for all copies, so that host memory can be freed."""
    for stream in tuple(_streams.values()):
        stream.synchronize()


def _extent(shape: Sequence[int], stride: Sequence[int]) -> int:
    """Return the number of elements from the first to the last in memory, with gaps."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))


def _at(arena: Tensor, place: int, count: int, dtype: torch.dtype) -> Tensor:
    return arena[place : place + count * dtype.itemsize].view(dtype)
