"""A request that fails waits for errors that other threads still hold, and is tried once more."""

import ctypes
import threading
import time

import pytest

from tests.adapters.world import OutOfMemoryError

FOREVER = 600_000
"""Milliseconds: a test that waits so long has failed."""


@pytest.fixture
def counter(world, adapter):
    """How many errors are held, on a card of 8192 bytes with a session."""
    world.limit(8192)
    adapter.engine.start_recording()
    return ctypes.c_int64(0)


def watch(adapter, counter, patience):
    adapter.library.ask("pgmo_watch_errors", ctypes.byref(counter), ctypes.c_uint32(patience))


@pytest.mark.parametrize("method", ["allocate", "raw_alloc"])
def test_what_an_error_held_serves_the_request(world, adapter, counter, method):
    watch(adapter, counter, FOREVER)
    step = world.allocate(6000)
    counter.value = 2  # one is kept by the program
    world.log()

    def drop():
        while not any("alloc" in line for line in world.log()):
            time.sleep(0.001)  # until the request has failed
        step.free()
        counter.value = 1

    thread = threading.Thread(target=drop)
    thread.start()
    getattr(world, method)(7000)
    thread.join()
    assert world.used() == 7168


def test_nobody_waits_where_no_error_is_held(world, adapter, counter):
    watch(adapter, counter, FOREVER)
    with pytest.raises(OutOfMemoryError):
        world.allocate(9000)


def test_an_error_that_stays_is_waited_for_once(world, adapter, counter):
    watch(adapter, counter, 1)
    counter.value = 1
    world.log()
    with pytest.raises(OutOfMemoryError):
        world.allocate(9000)
    assert sum("allocate(" in line for line in world.log()) == 1  # and nothing else was tried


def test_whoever_holds_the_gil_does_not_wait(world, adapter, counter):
    """The other threads could drop nothing meanwhile."""
    watch(adapter, counter, FOREVER)
    counter.value = 1
    allocate = ctypes.PyDLL(str(adapter.library.path)).fake_allocate
    text, data = ctypes.create_string_buffer(4096), ctypes.c_void_p()
    size = ctypes.c_size_t
    assert allocate(size(9000), ctypes.byref(data), text, size(len(text)))
    assert b"out of memory" in text.value
