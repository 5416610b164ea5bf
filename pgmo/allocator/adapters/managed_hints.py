"""What the driver is told about unified memory, by NVIDIA's own bindings (`pgmo[managed]`).

    advise    where a range is best kept, who reads it from afar     for good
    prefetch  move a range there now, before it is touched           in the order of a stream

Without the bindings, pages move when they are touched.
"""

import importlib
from typing import Any

from pgmo.errors import AdapterError

MISSING = (
    "unified memory is neither advised nor prefetched: that needs cuda-bindings 12.9 or later "
    "(pip install cuda-bindings)"
)


class Hints:
    """Tells the driver about ranges of unified memory of one device.

    Every function that is refused is noted, and never an error: it would be slower without.

    Args:
        index: of the device.

    Attributes:
        note: why nothing is told; "" while all is well.

    Example:
        >>> Hints(0).note  # doctest: +SKIP
        ''
    """

    def __init__(self, index: int) -> None:
        self.note = ""
        self._driver = _bindings()
        if self._driver is None:
            self.note = MISSING
            return
        kind = self._driver.CUmemLocationType
        self._device = self._location(kind.CU_MEM_LOCATION_TYPE_DEVICE, index)
        self._host = self._location(kind.CU_MEM_LOCATION_TYPE_HOST, 0)

    def keep_on_device(self, address: int, size: int) -> None:
        """Best kept on the device."""
        if self._driver is None:
            return
        advice = self._driver.CUmem_advise
        self._advise(address, size, advice.CU_MEM_ADVISE_SET_PREFERRED_LOCATION, self._device)

    def keep_on_host(self, address: int, size: int) -> None:
        """Best kept on the host, and mapped into the device, which reads it over the bus."""
        if self._driver is None:
            return
        advice = self._driver.CUmem_advise
        self._advise(address, size, advice.CU_MEM_ADVISE_SET_PREFERRED_LOCATION, self._host)
        self._advise(address, size, advice.CU_MEM_ADVISE_SET_ACCESSED_BY, self._device)

    def prefetch(self, address: int, size: int, *, to_device: bool) -> None:
        """Moves pages behind all that the default stream has been told to do."""
        if self._driver is None:
            return
        location = self._device if to_device else self._host
        self._try("cuMemPrefetchAsync", address, size, location, 0, 0)

    def _advise(self, address: int, size: int, advice: Any, location: Any) -> None:
        self._try("cuMemAdvise", address, size, advice, location)

    def _location(self, kind: Any, number: int) -> Any:
        location = self._driver.CUmemLocation()
        location.type, location.id = kind, number
        return location

    def _try(self, name: str, *arguments: Any) -> None:
        if self._driver is None:
            return
        function = _newest(self._driver, name)
        try:
            (result,) = function(*arguments)
        except RuntimeError as error:  # the driver lacks the function
            self._give_up(f"{name}: {error}")
            return
        if int(result):
            self._give_up(f"{name} failed with {result.name}")

    def _give_up(self, why: str) -> None:
        self.note = f"unified memory is no longer advised or prefetched: {why}"
        self._driver = None


def require_bindings() -> None:
    """Checks that hints can be given.

    Raises:
        AdapterError: when the bindings are not installed.

    Example:
        >>> require_bindings()  # doctest: +SKIP
    """
    if _bindings() is None:
        raise AdapterError(MISSING)


def _bindings() -> Any:
    """The module, if it is recent enough to know locations; None otherwise."""
    try:
        driver = importlib.import_module("cuda.bindings.driver")
    except ImportError:
        return None
    return driver if hasattr(driver, "CUmemLocation") and _newest(driver, "cuMemAdvise") else None


def _newest(driver: Any, name: str) -> Any:
    """The form that takes a location: the only one since 13, the second one in 12."""
    return getattr(driver, f"{name}_v2", None) or getattr(driver, name, None)
