"""Fake driver that records hints, instead of `libcuda.so.1`."""

from pgmo.allocator.adapters.managed_hints import _HOST, _PREFERRED_LOCATION


class Driver:
    """Fake driver, whose functions are attributes.

    Attributes:
        result: result of all functions.
        calls: arguments of all calls.
    """

    def __init__(self):
        self.result = 0
        self.calls = []

    def __getitem__(self, name):
        return {"cuMemAdvise": self.advise, "cuMemPrefetchAsync": self.prefetch}[name]

    def advise(self, address, size, advice, place):
        what = "prefer" if advice == _PREFERRED_LOCATION else "read by"
        return self.note(what, address, size, place)

    def prefetch(self, address, size, place, stream):
        assert stream.value is None
        return self.note("prefetch", address, size, place)

    def note(self, what, address, size, place):
        where = "host" if place == _HOST else f"device {place}"
        self.calls.append((what, address.value, size.value, where))
        return self.result
