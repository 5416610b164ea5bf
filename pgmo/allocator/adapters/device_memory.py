"""Memory of a card: free and total bytes, and support of unified memory.

managed   |####################################|
card      |######################|                    1.6 times its memory: pages move over the bus
"""

from dataclasses import dataclass

from pgmo.errors import AdapterError
from pgmo.units import format_bytes

CONCURRENT_MANAGED_ACCESS = 89
"""Number of the device attribute `cudaDevAttrConcurrentManagedAccess`."""


@dataclass(frozen=True)
class DeviceMemory:
    """Memory of a device, in bytes.

    Args:
        device: name of the device, such as "cuda:0".
        free: free bytes at the time of the query, over all processes.
        total: total bytes.
        concurrent: whether device and host may use one block of unified memory at the same time.
            Without concurrent access, the driver moves no single pages, and no block may be larger
            than the card.
    """

    device: str
    free: int
    total: int
    concurrent: bool

    def oversubscription(self, managed: int) -> float:
        """Return the ratio of `managed` bytes to free bytes; above 1, pages move over the bus.

        Without free bytes, return 1 if `managed` is positive, else 0.
        """
        return managed / self.free if self.free else float(managed > 0)

    def require_managed(self) -> None:
        """Raise `AdapterError` if unified memory cannot be larger than the card."""
        if self.concurrent:
            return
        raise AdapterError(
            f"{self.device} cannot use unified memory beyond its {format_bytes(self.total)}: its "
            "attribute concurrentManagedAccess is 0 (as under Windows and WSL, and on cards "
            "before Pascal). Use recomputation or gradient accumulation instead"
        )
