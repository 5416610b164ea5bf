"""Blocks of the CUDA driver's, which exist only in tests."""

import pytest

from tests.unit.allocator.plugin.machine import (
    SIDE,
    Machine,
)


def test_blocks_come_from_the_driver_and_go_back(machine: Machine):
    assert machine.alloc(0) == 0
    first, second = machine.alloc(1000), machine.alloc(5000, SIDE)
    assert machine.used() == 1024 + 5120
    machine.free(first)
    machine.free(second)
    assert machine.used() == 0
    assert machine.cuda.fake_retained(machine.ordinal) == 1
    assert machine.cuda.fake_threshold(machine.ordinal) == 2**64 - 1


def test_each_block_goes_back_in_its_own_device_s_context(libraries, machine: Machine):
    other = libraries.device()
    here, there = machine.alloc(512), other.alloc(512)
    machine.free(here)
    other.free(there)
    assert (machine.used(), other.used()) == (0, 0)


def test_thread_keeps_its_device(libraries, machine: Machine):
    elsewhere = libraries.device()
    elsewhere.free(elsewhere.alloc(512))
    with elsewhere.current():
        block = machine.alloc(512)
        machine.record_stream(block, SIDE)
        machine.free(block)
        assert machine.poll() == 0
    assert (machine.used(), elsewhere.used()) == (0, 0)


def test_device_that_does_not_exist(libraries):
    for ordinal in (-1, 63, 1000):
        with pytest.raises(RuntimeError, match=r"no CUDA device|CUDA_ERROR_INVALID_DEVICE"):
            Machine(libraries, ordinal).alloc(512)


def test_pointer_s_base(machine: Machine):
    block = machine.alloc(4096)
    assert machine.base(block + 1000) == (block, 4096)
    assert machine.base(4096) == (4096, 0)
    machine.free(block)


def test_threads_free_each_other_s_blocks(machine: Machine):
    machine.caller.torch_storm.restype = int
    plugin = machine.plugin
    overlaps = machine.caller.torch_storm(
        *(plugin.pgmo_plugin_alloc, plugin.pgmo_plugin_free, plugin.pgmo_plugin_record_stream),
        *(machine.ordinal, 4, 3000),
    )
    assert overlaps == 0
    assert machine.poll() == 0
    assert machine.used() == 0
