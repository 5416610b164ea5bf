"""Advice to the driver about unified memory.

    advise    where a range is best kept, who reads it from afar     for good
    prefetch  move a range there now, before it is touched           in the order of a stream

The driver's functions by these names have had the same parameters since CUDA 8. Headers of CUDA 13
mean newer ones by them, which take more kinds of places.
"""

import ctypes
from functools import cache
from typing import Any

_PREFERRED_LOCATION, _ACCESSED_BY = 3, 5
"""`CU_MEM_ADVISE_SET_PREFERRED_LOCATION` and `CU_MEM_ADVISE_SET_ACCESSED_BY`."""

_HOST = -1
"""`CU_DEVICE_CPU`."""


class Hints:
    """Advice about ranges of unified memory of one device.

    The first refusal of the driver is noted and ends all advice: programs are slower without it.

    Args:
        index: of the device.

    Attributes:
        note: why no advice is given; "" while all is well.
    """

    def __init__(self, index: int) -> None:
        self.note = ""
        self._device = index

    def keep_on_device(self, address: int, size: int) -> None:
        """Best kept on the device."""
        self._advise(address, size, _PREFERRED_LOCATION, self._device)

    def keep_on_host(self, address: int, size: int) -> None:
        """Best kept on the host, and mapped into the device, which reads it over the bus."""
        self._advise(address, size, _PREFERRED_LOCATION, _HOST)
        self._advise(address, size, _ACCESSED_BY, self._device)

    def prefetch(self, address: int, size: int, *, to_device: bool) -> None:
        """Moves pages behind all that the default stream has been told to do."""
        place = self._device if to_device else _HOST
        self._call("cuMemPrefetchAsync", address, size, place, ctypes.c_void_p(None))

    def _advise(self, address: int, size: int, advice: int, place: int) -> None:
        self._call("cuMemAdvise", address, size, advice, place)

    def _call(self, function: str, address: int, size: int, *rest: Any) -> None:
        if self.note:
            return
        result = driver()[function](ctypes.c_uint64(address), ctypes.c_size_t(size), *rest)
        if result:
            self.note = f"unified memory is not advised any more: {function} failed with {result}"


@cache
def driver() -> Any:
    """The driver's library, which is there where there is unified memory."""
    return ctypes.CDLL("libcuda.so.1")
