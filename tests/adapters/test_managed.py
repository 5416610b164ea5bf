"""Unified memory: which requests are sent to a pool of it, and what plans spill."""

import ctypes

import pytest

from pgmo.allocator.adapters.adapter import Memory
from pgmo.errors import AdapterError
from tests.adapters.world import Slot, in_thread, serve

TWO = [Slot(1000, 0, end=2), Slot(1000, 1024, end=2)]
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


def test_requests_of_all_threads_and_streams_go_there(world):
    begin(world)
    world.log()
    world.allocate(1000)
    in_thread(lambda: world.allocate(1000))
    with world.on(stream=3):
        world.allocate(1000)
    assert world.log().count("beneath: from pool (0, 9)") == 3
    end(world)
    world.allocate(1000)
    # Older versions empty all pools.
    log = [line.replace("emptyCache()", "emptyCache((0, 9))") for line in world.log()]
    assert log == [
        "beneath: endAllocateToPool(0, (0, 9))",
        *(["beneath: releasePool(0, (0, 9))"] * 2),  # for torch.cuda.MemPool, too
        "beneath: emptyCache((0, 9))",
        "beneath: allocate(1000)",
    ]


def test_what_is_captured_does_not(world):
    begin(world)
    world.log()
    with world.on(stream=3), world.capturing(stream=3):
        world.allocate(1000)
    assert "beneath: from pool (0, 9)" not in world.log()
    end(world)


def test_a_session_over_it_sees_and_serves_what_is_requested(world, adapter):
    begin(world)
    engine = adapter.engine
    engine.start_recording()
    world.log()
    world.allocate(1000).free()
    assert len(engine.events()) == 2  # a pool that is begun on top of a session hides its requests
    engine.stop_recording()
    bases = serve(adapter, TWO)
    assert "beneath: from pool (0, 9)" in world.log()  # so the arena lies there, too
    assert world.allocate(1000).address == bases[0]
    end(world)


def test_a_pool_that_is_begun_on_top_of_it_comes_first(world, adapter):
    begin(world)
    world.log()
    with world.pool(number=7):
        world.allocate(1000)
    assert "beneath: from pool (0, 7)" in world.log()
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


def test_what_is_spilled_goes_back_when_all_streams_are_done_with_it(world, adapter):
    memory = Memory()
    world.adapter.call("pgmo_take_spill", 0, ctypes.c_size_t(4096), ctypes.byref(memory))
    assert world.log()[-1] == "cudaMallocManaged(4096)"
    assert held(world) == (4096, 4096)
    assert memory.bytes == 4096
    memory.return_now()
    assert world.log() == ["cudaDeviceSynchronize(0)", "cudaFree()"]
    assert held(world)[0] == 0


def test_more_than_there_is(world, adapter):
    with pytest.raises(AdapterError, match=r"no 2\.00 GiB of unified memory can be had"):
        world.adapter.call("pgmo_take_spill", 0, ctypes.c_size_t(2 << 30), ctypes.byref(Memory()))
    with pytest.raises(AdapterError, match="cuda:1 cannot use unified memory beyond"):
        framework_of_device_1 = type(adapter)(1)
        framework_of_device_1.take_spill(4096)
