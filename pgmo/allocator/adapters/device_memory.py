"""Memory of a card: its free bytes, and whether unified memory works on it.

managed   |####################################|
card      |######################|                    1.6 times its room: pages move over the bus
"""

from dataclasses import dataclass

from pgmo.errors import AdapterError
from pgmo.units import format_bytes

CONCURRENT_MANAGED_ACCESS = 89
"""The number of the attribute `cudaDevAttrConcurrentManagedAccess`."""


@dataclass(frozen=True)
class DeviceMemory:
    """A device's memory, in bytes.

    Args:
        device: its name, "cuda:0".
        free: not in use by anybody when it was asked.
        total: all that it has.
        concurrent: whether it and the host may use one block of unified memory at the same time;
            only then do single pages move, and a block may be larger than the card.
    """

    device: str
    free: int
    total: int
    concurrent: bool

    def oversubscription(self, managed: int) -> float:
        """Return bytes held over bytes that were free: above 1, pages have to move."""
        return managed / self.free if self.free else float(managed > 0)

    def require_managed(self) -> None:
        """Checks that unified memory can be larger than the card.

        Raises:
            AdapterError: where it cannot, with what works instead.
        """
        if self.concurrent:
            return
        raise AdapterError(
            f"{self.device} cannot use unified memory beyond its {format_bytes(self.total)}: its "
            "attribute concurrentManagedAccess is 0 (so it is under Windows and WSL, and on cards "
            "before Pascal). What works there: recomputation, or gradient accumulation"
        )
