"""An arena that lies idle is given back when a request finds no memory otherwise."""

import pytest

from tests.adapters.world import OutOfMemoryError, Slot, in_thread, serve

METHODS = ["allocate", "raw_alloc"]
ONE = [Slot(1000, 0, end=1)]


@pytest.fixture
def small(world, adapter):
    """A card with an arena of 4096 bytes in 8192; one iteration is behind us."""
    world.limit(8192)
    serve(adapter, ONE)
    world.allocate(1000).free()
    adapter.engine.end_iteration()
    return world


def asked(world):
    """The sizes that the allocator beneath was asked for."""
    lines = [line.removeprefix("beneath: ") for line in world.log()]
    return [line for line in lines if line.startswith(("allocate(", "raw_alloc_with_stream("))]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("paused", [True, False])
def test_between_steps_a_request_gets_the_arenas_memory(small, adapter, method, paused):
    if paused:  # as for an evaluation
        adapter.engine.pause()
    small.log()
    getattr(small, method)(7000)
    assert len(asked(small)) == 2
    assert small.used() == 7168
    assert not adapter.engine.has_arena
    if paused:
        adapter.engine.resume()
    assert adapter.engine.statistics()["arenas"] == 0


@pytest.mark.parametrize("paused", [True, False])
def test_a_request_that_fits_leaves_the_arena_alone(small, adapter, paused):
    if paused:
        adapter.engine.pause()
    small.limit(16384)
    block = small.allocate(7000)
    assert adapter.engine.has_arena
    assert small.used() == 4096 + 7168
    block.free()


def test_the_session_may_take_another_arena_and_go_on(small, adapter):
    adapter.engine.pause()
    large = small.allocate(7000)
    adapter.engine.resume()
    without = small.allocate(1000)  # in a step that has no arena
    assert adapter.engine.statistics()["no_arena"] == 1
    large.free()
    adapter.engine.end_iteration()
    memory = adapter.take_arena(4096, 0)
    adapter.engine.add_arena(0, 0, memory.base, memory.bytes, *memory.owner)
    slot = small.allocate(1000)
    assert slot.address == memory.base
    for block in (slot, without):
        block.free()
    adapter.engine.detach_arena()
    assert small.living() == 0


@pytest.mark.parametrize("paused", [True, False])
def test_not_while_a_block_lives_in_it(small, adapter, paused):
    living = small.allocate(1000)
    assert adapter.engine.owns(living.address)
    if paused:
        adapter.engine.pause()
    small.log()
    with pytest.raises(OutOfMemoryError):
        small.allocate(7000)
    assert len(asked(small)) == 1
    living.fill(5)
    assert living.holds(5)
    assert adapter.engine.has_arena
    living.free()
    small.allocate(7000).free()
    assert not adapter.engine.has_arena


def test_a_slot_that_waits_for_another_stream_is_waited_for(small, adapter):
    living = small.allocate(1000)
    with small.held(3):
        living.record_stream(3)
        living.free()
        assert adapter.engine.statistics()["live_slot_bytes"] == 1000
        small.allocate(7000).free()
    assert not adapter.engine.has_arena


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("paused", [True, False])
def test_not_while_a_pool_is_active(small, adapter, method, paused):
    """Neither for its own requests, nor for those of others."""
    if paused:
        adapter.engine.pause()
    small.log()

    def fails():
        with pytest.raises(OutOfMemoryError):
            getattr(small, method)(7000)

    with small.pool():
        fails()
        in_thread(fails)
        assert len(asked(small)) == 2
        assert adapter.engine.has_arena
    getattr(small, method)(7000)
    assert not adapter.engine.has_arena
