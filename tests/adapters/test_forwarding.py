"""What pgmo does not change reaches PyTorch's allocator as it was asked for."""

import ctypes

import pytest

from tests.adapters.world import Slot, serve


def answers(world, allocator):
    """Calls every method that is only handed on; arguments and results in words."""
    made = {}
    for number in range(world.ask("calls")):
        world.log()
        result = world.call("call", number, ctypes.c_void_p(allocator))
        made[number, world.ask("method", number).decode()] = (world.log(), result)
    return made


@pytest.mark.parametrize("busy", [False, True])
def test_every_method_arrives_with_its_arguments_and_comes_back_with_its_result(
    world, adapter, busy
):
    if busy:
        serve(adapter, [Slot(1000, 0, end=1)])
    expected = answers(world, world.upstream())
    assert len(expected) >= 28  # in PyTorch 2.6
    for (_, name), (log, _) in expected.items():
        assert len(log) == 1
        assert log[0].startswith(f"beneath: {name}(")
    found = answers(world, world.current)
    # Whoever switched caching off before CUDA began is heeded.
    (log, _) = found[0, "init"]
    assert log.pop() == "beneath: isEnabled()"
    assert found == expected
    methods = {name for _, name in expected}
    assert methods >= {"emptyCache", "getDeviceStats", "snapshot", "memcpyAsync", "copy_data"}


def test_bypass_passes_everything_on(world, adapter):
    block = world.allocate(1000)
    raw = world.raw_alloc_with_stream(3000, stream=2)
    with world.on(stream=3):
        other = world.raw_alloc(2000)
    block.record_stream(5)
    assert block.base() == 1024
    block.share()
    block.free()
    world.raw_delete(raw)
    world.raw_delete(other)
    names = [line.partition("(")[0].removeprefix("beneath: ") for line in world.log()]
    assert names == [
        *("allocate", "raw_alloc_with_stream", "raw_alloc_with_stream"),
        *("recordStream", "getBaseAllocation", "shareIpcHandle", "free", "free", "free"),
    ]
    assert adapter.engine.statistics()["requests"] == 0
    assert len(adapter.engine.events()) == 0
    assert world.living() == 0


def test_the_current_stream_goes_with_a_raw_request(world, adapter):
    with world.on(stream=3):
        raw = world.raw_alloc(2000)
    assert world.log() == ["beneath: raw_alloc_with_stream(2000, 0x103)"]
    world.raw_delete(raw)


def test_nothing_is_asked_for_nothing(world, adapter):
    serve(adapter, [Slot(1000, 0, end=1)])
    empty = world.allocate(0)
    assert empty.address == 0
    empty.record_stream(3)
    empty.free()
    assert world.raw_alloc(0) == 0
    world.raw_delete(0)
    assert adapter.engine.statistics()["requests"] == 0
