"""Putting the adapter over PyTorch's allocator and taking it away again."""

import ctypes

import pytest

from pgmo import _core
from pgmo.allocator.adapters import torch_cuda
from pgmo.errors import AdapterError
from tests.adapters.world import Slot, serve

ONE = [Slot(1000, 0, end=1)]


def test_restores_what_was_there(world, framework):
    assert world.current != world.upstream()
    assert world.current == world.adapter.address("pgmo_adapter")
    framework.uninstall()
    assert world.current == world.upstream()


def test_twice_is_once(world, framework):
    adapter = world.current
    framework.install()
    assert world.current == adapter
    framework.uninstall()
    framework.uninstall()
    assert world.current == world.upstream()
    framework.install()
    assert world.current == adapter


def test_the_deleter_of_raw_blocks_is_that_of_the_allocator_beneath(world, framework):
    assert world.ask("knows_raw_deleter", 0)


def test_blocks_outlive_the_allocator_that_they_came_from(world, framework):
    framework.uninstall()
    before = world.allocate(1000)
    framework.install()
    framework.engine.start_recording()
    adopted = world.allocate(2000)
    serve(framework, ONE)
    slot = world.allocate(1000)
    assert framework.engine.owns(slot.address)
    before.free()
    assert world.log()[-1] == "beneath: free(1024)"

    framework.engine.stop_recording()
    framework.engine.remove_plans()
    framework.engine.detach_arena()
    framework.uninstall()
    world.log()
    slot.fill(7)
    assert slot.holds(7)
    # What lived meanwhile may have been used on streams that nobody told the adapter of.
    adopted.free()
    assert world.log() == ["cudaDeviceSynchronize(0)", "beneath: free(2048)"]
    slot.free()
    assert world.log() == ["cudaDeviceSynchronize(0)", "beneath: free(4096)"]
    assert world.living() == 0


def test_without_an_absence_nothing_waits_for_the_device(world, framework):
    framework.engine.start_recording()
    adopted = world.allocate(2000)
    serve(framework, ONE)
    slot = world.allocate(1000)
    framework.engine.detach_arena()
    adopted.free()
    slot.free()
    assert world.living() == 0
    assert not any("Synchronize" in line for line in world.log())


def test_a_survivor_is_waited_for_once(world, framework):
    framework.engine.start_recording()
    blocks = [world.allocate(1000 * number) for number in (1, 2)]
    framework.uninstall()
    framework.install()
    later = world.allocate(5000)
    world.log()
    blocks[0].free()
    assert world.log() == ["cudaDeviceSynchronize(0)", "beneath: free(1024)"]
    later.free()
    assert world.log() == ["beneath: free(5120)"]


def test_another_allocator_on_top_is_reported(world, framework):
    ours = world.current
    world.store(world.upstream(1))
    with pytest.raises(AdapterError, match="another CUDA allocator was installed on top of pgmo's"):
        framework.uninstall()
    assert world.current == world.upstream(1)
    with pytest.raises(AdapterError, match="take that one away before"):
        framework.install()  # two of ours in one chain
    world.store(ours)
    framework.install()
    framework.uninstall()
    assert world.current == world.upstream()


def test_wraps_whichever_allocator_is_there(world, framework):
    framework.engine.start_recording()
    first = world.allocate(1000)
    framework.uninstall()
    world.store(world.upstream(1))
    framework.install()
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
    framework.uninstall()
    assert world.current == world.upstream(1)


def test_sessions_find_what_torch_itself_has_installed(world):
    """`change_current_allocator` stores the same object, and nobody takes that away."""
    ours = world.adapter.address("pgmo_adapter")
    world.store(ours)
    framework = torch_cuda.TorchCuda(0)
    framework.install()
    assert world.current == ours
    serve(framework, ONE)
    block = world.allocate(1000)
    assert framework.engine.owns(block.address)
    block.free()
    framework.engine.detach_arena()
    framework.uninstall()
    assert world.current == ours
    block = world.allocate(1000)
    assert not framework.engine.owns(block.address)
    block.free()
    assert world.living() == 0


def test_an_engine_of_another_version_or_a_second_one_is_refused(world, framework):
    other = _core.Engine()
    table = ctypes.c_void_p(_core.engine_api())
    with pytest.raises(AdapterError, match="from another engine already"):
        world.adapter.call("pgmo_connect", 0, table, ctypes.c_void_p(other.handle))
    old = (ctypes.c_uint32 * 2)(1, 8)
    with pytest.raises(AdapterError, match="another version of pgmo's engine"):
        world.adapter.call("pgmo_connect", 1, ctypes.byref(old), ctypes.c_void_p(other.handle))
    with pytest.raises(AdapterError, match="devices 0 to 15, not 16"):
        world.adapter.call("pgmo_connect", 16, table, ctypes.c_void_p(other.handle))
