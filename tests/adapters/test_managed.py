"""Unified memory: which requests are sent to a pool of it, and what plans spill."""

import ctypes

import pytest

from pgmo.allocator.adapters.adapter import Memory
from pgmo.errors import AdapterError

POOL = (ctypes.c_uint64(0), ctypes.c_uint64(9))


def begin(world, device=0):
    world.adapter.call("pgmo_managed_begin", device, *POOL)


def end(world, device=0):
    world.adapter.call("pgmo_managed_end", device, *POOL)


def held(world, device=0, *, reset=False):
    now, peak = ctypes.c_uint64(), ctypes.c_uint64()
    world.adapter.ask(
        "pgmo_managed_bytes", device, int(reset), ctypes.byref(now), ctypes.byref(peak)
    )
    return now.value, peak.value


def test_what_is_captured_does_not(world):
    begin(world)
    world.log()
    with world.on(stream=3), world.capturing(stream=3):
        world.allocate(1000)
    assert "beneath: from pool (0, 9)" not in world.log()
    end(world)


def test_of_one_device_only(world):
    begin(world, device=1)
    world.log()
    world.allocate(1000)
    with world.on(device=1):
        world.allocate(1000)
    assert world.log().count("beneath: from pool (0, 9)") == 1
    end(world, device=1)


def test_segments_come_from_the_runtime_and_are_counted(world):
    take = world.adapter._library["pgmo_managed_alloc"]
    take.restype = ctypes.c_void_p
    give = world.adapter._library["pgmo_managed_free"]
    one = take(ctypes.c_ssize_t(5000), 0, None)
    other = take(ctypes.c_ssize_t(7000), 1, None)
    assert held(world) == (5000, 5000)
    assert held(world, 1) == (7000, 7000)
    give(ctypes.c_void_p(one), ctypes.c_ssize_t(5000), 0, None)
    assert held(world, reset=True) == (0, 5000)
    assert held(world) == (0, 0)
    assert take(ctypes.c_ssize_t(2 << 30), 0, None) is None  # torch reports that it has run out
    assert held(world, 1) == (7000, 7000)
    give(ctypes.c_void_p(other), ctypes.c_ssize_t(7000), 1, None)
    assert world.log() == [
        *("cudaMallocManaged(5000)", "cudaMallocManaged(7000)"),
        *("cudaFree()", "cudaFree()"),
    ]


def test_more_than_there_is(world, adapter):
    with pytest.raises(AdapterError, match=r"no 2\.00 GiB of unified memory can be had"):
        world.adapter.call("pgmo_take_spill", 0, ctypes.c_size_t(2 << 30), ctypes.byref(Memory()))
    with pytest.raises(AdapterError, match="cuda:1 cannot use unified memory beyond"):
        framework_of_device_1 = type(adapter)(1)
        framework_of_device_1.take_spill(4096)
