"""Copies of device memory on the host, in pinned memory if available."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgmo.allocator.adapters.torch_cuda import TorchCuda

CHUNK = 32 << 20
"""Bytes of one block of host memory. PyTorch rounds pinned memory up to powers of two and caches
it, so the next copy reuses blocks of equal size."""


class HostCopy:
    """Host copy of runs of pages. `runs`: address and bytes of each run, in ascending order."""

    def __init__(self, adapter: "TorchCuda", runs: Iterable[tuple[int, int]]) -> None:
        self._adapter = adapter
        self._chunks: list[tuple[int, Any]] = []
        for begin, size in runs:
            for address in range(begin, begin + size, CHUNK):
                host = _host_memory(min(CHUNK, begin + size - address))
                adapter.copy(host.data_ptr(), address, host.nbytes)
                self._chunks.append((address, host))

    @property
    def size(self) -> int:
        """Bytes of the copy."""
        return sum(int(host.nbytes) for _, host in self._chunks)

    def put_back(self, runs: Iterable[tuple[int, int]]) -> None:
        """Copy the contents of these runs, in ascending order, to their addresses on the device."""
        chunks = iter(self._chunks)
        chunk = next(chunks, None)
        for begin, size in runs:
            end = begin + size
            while chunk is not None and chunk[0] < end:
                address, host = chunk
                low, high = max(address, begin), min(address + host.nbytes, end)
                if low < high:
                    self._adapter.copy(low, host.data_ptr() + low - address, high - low)
                if address + host.nbytes > end:
                    break  # the next run needs this chunk as well
                chunk = next(chunks, None)


def _host_memory(size: int) -> Any:
    import torch

    try:
        return torch.empty(size, dtype=torch.uint8, device="cpu", pin_memory=True)
    except RuntimeError:  # the system cannot pin more memory
        return torch.empty(size, dtype=torch.uint8, device="cpu")
