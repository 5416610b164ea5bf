"""The probe over CuPy, whose driver is replaced: what is measured, not how long it takes."""

import gc
import types

import pytest

from pgmo.allocator.managed import slowdown as probe
from pgmo.allocator.managed.slowdown import Slowdown, slowdown
from pgmo.errors import AdapterError, OptionError
from tests.unit.fake_cupy import alloc

MIB = 1 << 20


@pytest.fixture
def copies(cupy, monkeypatch):
    """Whose copies take a second of device memory's and three of unified memory's time."""
    clock = [0.0]

    def zeros(size, dtype):
        return alloc(cupy, size)

    def copyto(target, source):
        assert target.ptr != source.ptr
        kinds = {cupy.runtime.living[each.ptr][2] for each in (target, source)}
        clock[0] += {"device": 1.0, "managed": 3.0}[kinds.pop()]
        assert not kinds

    cupy.uint8, cupy.zeros, cupy.copyto = object(), zeros, copyto
    monkeypatch.setattr(probe, "time", types.SimpleNamespace(perf_counter=lambda: clock[0]))
    return cupy


def test_the_same_copies_are_timed_in_both_kinds_of_memory(copies):
    allocator = copies.cuda.get_allocator()
    found = slowdown("4 MiB", framework="cupy")
    assert found == Slowdown(3.0, 1.0, 3.0, 4 * MIB)
    assert copies.cuda.get_allocator() == allocator
    gc.collect()
    assert copies.runtime.used(kind="managed") == 0


def test_what_does_not_fit_is_not_tried(copies):
    copies.runtime.limit = 15 * MIB
    with pytest.raises(
        OptionError, match=r"four buffers of 4\.00 MiB do not fit into the 15\.0 MiB"
    ):
        slowdown(4 * MIB, framework="cupy")
    assert copies.runtime.log == []
    with pytest.raises(OptionError, match=r"0 B do not fit"):
        slowdown(0, framework="cupy")


def test_where_the_card_cannot(copies):
    copies.runtime.concurrent = False
    with pytest.raises(AdapterError, match="concurrentManagedAccess"):
        slowdown("1 MiB", framework="cupy")
