"""Copies of device memory on the host, in pinned memory where there is some."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgmo.allocator.adapters.torch_cuda import TorchCuda

CHUNK = 32 << 20
"""Bytes. PyTorch rounds pinned memory up to powers of two, and keeps it for the next copy."""


class HostCopy:
    """What lay in runs of pages.

    Args:
        adapter: of their device.
        runs: address and bytes of each.
    """

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
        """Bytes of it."""
        return sum(int(host.nbytes) for _, host in self._chunks)

    def put_back(self, runs: Iterable[tuple[int, int]]) -> None:
        """Writes the part of it that lay in these runs to where it lay.

        Both runs and what was copied are ordered by their addresses.
        """
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
                    break  # the next run has something of it, too
                chunk = next(chunks, None)


def _host_memory(size: int) -> Any:
    import torch

    try:
        return torch.empty(size, dtype=torch.uint8, device="cpu", pin_memory=True)
    except RuntimeError:  # the system has no more memory that may be pinned
        return torch.empty(size, dtype=torch.uint8, device="cpu")
