"""Putting the adapter over PyTorch's allocator and taking it away again."""

import ctypes

import pytest

from pgmo import _core
from pgmo.allocator.adapters import torch_cuda
from pgmo.errors import AdapterError
from tests.adapters.world import Slot, serve

ONE = [Slot(1000, 0, end=1)]


def test_restores_what_was_there(world, adapter):
    assert world.current != world.upstream()
    assert world.current == world.adapter.address("pgmo_adapter")
    adapter.uninstall()
    assert world.current == world.upstream()


def test_twice_is_once(world, adapter):
    installed = world.current
    adapter.install()
    assert world.current == installed
    adapter.uninstall()
    adapter.uninstall()
    assert world.current == world.upstream()
    adapter.install()
    assert world.current == installed


def test_the_deleter_of_raw_blocks_is_that_of_the_allocator_beneath(world, adapter):
    assert world.ask("knows_raw_deleter", 0)


def test_blocks_outlive_the_allocator_that_they_came_from(world, adapter):
    adapter.uninstall()
    before = world.allocate(1000)
    adapter.install()
    adapter.engine.start_recording()
    adopted = world.allocate(2000)
    serve(adapter, ONE)
    slot = world.allocate(1000)
    assert adapter.engine.owns(slot.address)
    before.free()
    assert world.log()[-1] == "beneath: free(1024)"

    adapter.engine.stop_recording()
    adapter.engine.remove_plans()
    adapter.engine.detach_arena()
    adapter.uninstall()
    world.log()
    slot.fill(7)
    assert slot.holds(7)
    # What lived meanwhile may have been used on streams that nobody told the adapter of.
    adopted.free()
    assert world.log() == ["cudaDeviceSynchronize(0)", "beneath: free(2048)"]
    slot.free()
    assert world.log() == ["cudaDeviceSynchronize(0)", "beneath: free(4096)"]
    assert world.living() == 0


def test_without_an_absence_nothing_waits_for_the_device(world, adapter):
    adapter.engine.start_recording()
    adopted = world.allocate(2000)
    serve(adapter, ONE)
    slot = world.allocate(1000)
    adapter.engine.detach_arena()
    adopted.free()
    slot.free()
    assert world.living() == 0
    assert not any("Synchronize" in line for line in world.log())


def test_a_survivor_is_waited_for_once(world, adapter):
    adapter.engine.start_recording()
    blocks = [world.allocate(1000 * number) for number in (1, 2)]
    adapter.uninstall()
    adapter.install()
    later = world.allocate(5000)
    world.log()
    blocks[0].free()
    assert world.log() == ["cudaDeviceSynchronize(0)", "beneath: free(1024)"]
    later.free()
    assert world.log() == ["beneath: free(5120)"]


def test_another_allocator_on_top_is_reported(world, adapter):
    ours = world.current
    world.store(world.upstream(1))
    with pytest.raises(AdapterError, match="another CUDA allocator was installed on top of pgmo's"):
        adapter.uninstall()
    assert world.current == world.upstream(1)
    with pytest.raises(AdapterError, match="take that one away before"):
        adapter.install()  # two of ours in one chain
    world.store(ours)
    adapter.install()
    adapter.uninstall()
    assert world.current == world.upstream()


def test_wraps_whichever_allocator_is_there(world, adapter):
    adapter.engine.start_recording()
    first = world.allocate(1000)
    adapter.uninstall()
    world.store(world.upstream(1))
    adapter.install()
    second = world.allocate(2000)
    assert (world.living(0), world.living(1)) == (1, 1)
    world.log()
    first.record_stream(3)
    second.record_stream(3)
    assert [line.partition("(")[0] for line in world.log()] == [
        "beneath: recordStream",
        "another: recordStream",
    ]
    first.free()
    assert (world.living(0), world.living(1)) == (0, 1)
    second.free()
    assert world.living(1) == 0
    adapter.uninstall()
    assert world.current == world.upstream(1)


def test_sessions_find_what_torch_itself_has_installed(world):
    """`change_current_allocator` stores the same object, and nobody takes that away."""
    ours = world.adapter.address("pgmo_adapter")
    world.store(ours)
    adapter = torch_cuda.TorchCuda(0)
    adapter.install()
    assert world.current == ours
    serve(adapter, ONE)
    block = world.allocate(1000)
    assert adapter.engine.owns(block.address)
    block.free()
    adapter.engine.detach_arena()
    adapter.uninstall()
    assert world.current == ours
    block = world.allocate(1000)
    assert not adapter.engine.owns(block.address)
    block.free()
    assert world.living() == 0


def test_an_engine_of_another_version_or_one_too_many_is_refused(world, adapter):
    table = ctypes.c_void_p(_core.engine_api())
    others = [_core.Engine() for _ in range(32)]
    for other in others[:-1]:
        world.adapter.call("pgmo_connect", 0, table, ctypes.c_void_p(other.handle))
    other = others[-1]
    with pytest.raises(AdapterError, match="more than 32 sessions are open on one device"):
        world.adapter.call("pgmo_connect", 0, table, ctypes.c_void_p(other.handle))
    old = (ctypes.c_uint32 * 2)(1, 8)
    with pytest.raises(AdapterError, match="another version of pgmo's engine"):
        world.adapter.call("pgmo_connect", 1, ctypes.byref(old), ctypes.c_void_p(other.handle))
    with pytest.raises(AdapterError, match="devices 0 to 15, not 16"):
        world.adapter.call("pgmo_connect", 16, table, ctypes.c_void_p(other.handle))
