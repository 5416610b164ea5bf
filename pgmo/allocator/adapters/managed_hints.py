"""Hints to the driver about unified memory.

    advise    preferred location of a range, and remote readers      permanent
    prefetch  move a range to the device or host before its use      in the order of a stream

The driver's exported functions have had the same parameters since CUDA 8, although the headers of
CUDA 13 map their names to newer functions.
"""

import ctypes
from functools import cache
from typing import Any

_PREFERRED_LOCATION, _ACCESSED_BY = 3, 5
"""`CU_MEM_ADVISE_SET_PREFERRED_LOCATION` and `CU_MEM_ADVISE_SET_ACCESSED_BY`."""

_HOST = -1
"""`CU_DEVICE_CPU`."""


class Hints:
    """Hints about ranges of unified memory of one device.

    The first error of the driver stops all hints. Programs work without them, but more slowly.

    Attributes:
        note: reason why hints have stopped; "" if they have not.
    """

    def __init__(self, index: int) -> None:
        self.note = ""
        self._device = index

    def keep_on_device(self, address: int, size: int) -> None:
        """Set the device as the preferred location of a range."""
        self._advise(address, size, _PREFERRED_LOCATION, self._device)

    def keep_on_host(self, address: int, size: int) -> None:
        """Set the host as the preferred location of a range, which the device can access."""
        self._advise(address, size, _PREFERRED_LOCATION, _HOST)
        self._advise(address, size, _ACCESSED_BY, self._device)

    def prefetch(self, address: int, size: int, *, to_device: bool) -> None:
        """Move pages to the device or the host, after the work queued on the default stream."""
        place = self._device if to_device else _HOST
        self._call("cuMemPrefetchAsync", address, size, place, ctypes.c_void_p(None))

    def _advise(self, address: int, size: int, advice: int, place: int) -> None:
        self._call("cuMemAdvise", address, size, advice, place)

    def _call(self, function: str, address: int, size: int, *rest: Any) -> None:
        if self.note:
            return
        result = driver()[function](ctypes.c_uint64(address), ctypes.c_size_t(size), *rest)
        if result:
            self.note = f"hints about unified memory have stopped: {function} failed with {result}"


@cache
def driver() -> Any:
    """Return the driver's library, which exists on every machine with unified memory."""
    return ctypes.CDLL("libcuda.so.1")
