"""Program that allocates through CuPy."""

from tests.unit.allocator.simulated import Oracle
from tests.unit.fake_cupy import alloc


class Program:
    """Framework for `Loop`: requests arrays, and frees them by their addresses."""

    def __init__(self, cupy):
        self._cupy = cupy
        self._blocks = {}
        self._oracle = Oracle()

    def request(self, size):
        block = alloc(self._cupy, size)
        assert block.ptr % 512 == 0
        self._oracle.add(block.ptr, size)
        self._blocks[block.ptr] = block
        return block.ptr

    def devices(self):
        """Return the devices of the program's blocks."""
        living = self._cupy.runtime.living.items()
        return {
            device
            for address in self._blocks
            for base, (device, size, _) in living
            if base <= address < base + size
        }

    def free(self, address):
        self._oracle.remove(address)
        del self._blocks[address]
