"""Where the driver puts segments: best fit prefers low addresses, so that they matter."""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator

GRANULARITY = 2 << 20
"""Bytes: addresses of segments are multiples of it."""

FIRST_ADDRESS = 1 << 45


class RisingAddresses:
    """Each segment after the one before; no address comes twice.

    What is known of real drivers is no more than that: new segments mostly follow one another.

    Example:
        >>> driver = RisingAddresses()
        >>> second = (driver.segment(20 << 20), driver.segment(3 << 20))[1]
        >>> second - FIRST_ADDRESS == 20 << 20
        True
    """

    def __init__(self, first: int = FIRST_ADDRESS) -> None:
        self._next = -(-first // GRANULARITY) * GRANULARITY

    def segment(self, size: int) -> int:
        """Address of a new segment of that many bytes."""
        address = self._next
        self._next += -(-size // GRANULARITY) * GRANULARITY
        return address

    def space(self, size: int) -> int:
        """Address of a range of that many bytes, reserved for an expandable segment."""
        return self.segment(size)


class RecordedAddresses(RisingAddresses):
    """The addresses that segments had in a trace, in their order; beyond it, rising ones.

    Args:
        segments: (bytes, address) of each segment that the trace takes from the driver.
        mapped: (bytes, address) of each mapping into expandable segments; of what is unmapped,
            with bytes below 0.
        known: (begin, end, bytes mapped) of the expandable segments in use before.
        first: an address above all that the trace contains.

    Example:
        >>> RecordedAddresses([(2 << 20, 4096)], [], [], 1 << 40).segment(2 << 20)
        4096
    """

    def __init__(
        self,
        segments: Iterable[tuple[int, int]],
        mapped: Iterable[tuple[int, int]],
        known: Iterable[tuple[int, int, int]],
        first: int,
    ) -> None:
        super().__init__(first)
        self._segments: defaultdict[int, deque[int]] = defaultdict(deque)
        for size, address in segments:
            self._segments[size].append(address)
        self._spaces = deque(_beginnings(mapped, known))

    def segment(self, size: int) -> int:
        """Address of a new segment of that many bytes."""
        waiting = self._segments[size]
        return waiting.popleft() if waiting else super().segment(size)

    def space(self, size: int) -> int:
        """Address of a range of that many bytes, reserved for an expandable segment."""
        return self._spaces.popleft() if self._spaces else super().space(size)


def _beginnings(
    mapped: Iterable[tuple[int, int]], known: Iterable[tuple[int, int, int]]
) -> Iterator[int]:
    """Addresses of the mappings that are neither inside nor at the end of a range in use.

    A range ends when nothing is mapped in it any more.
    """
    used = [[begin, end, size] for begin, end, size in known]
    for size, address in mapped:
        inside = (one for one in used if one[0] <= address <= one[1])
        found = next(inside, None)
        if found is None:
            found = [address, address, 0]
            used.append(found)
            yield address
        found[1] = max(found[1], address + size)
        found[2] += size
        if found[2] <= 0:
            used.remove(found)
