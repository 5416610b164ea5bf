"""Blocks without a deleter of ours: what libraries take through raw_alloc and give back by hand."""

from pgmo.profiler.recording import FREE, REQUEST
from tests.adapters.world import Slot, serve

ONE = [Slot(1000, 0, end=1)]


def live_foreign(adapter):
    return adapter.engine.statistics()["live_fallback_bytes"]


def test_slots_are_for_raw_requests_too(world, adapter):
    bases = serve(adapter, ONE)
    for _ in range(3):
        raw = world.raw_alloc(1000)
        assert raw == bases[0]
        world.raw_delete(raw)
        adapter.engine.end_iteration()
    assert adapter.engine.statistics()["hits"] == 3
    assert world.living() == 1  # the arena


def test_a_raw_request_for_another_stream_than_the_current_one(world, adapter):
    adapter.engine.start_recording()
    with world.on(stream=3):
        world.allocate(512).free()
    adapter.engine.stop_recording()
    bases = serve(adapter, [Slot(1000, 0, end=1, stream=1)])
    raw = world.raw_alloc_with_stream(1000, stream=3)
    assert raw == bases[1]
    world.raw_delete(raw)


def test_what_came_from_beneath_goes_back_there(world, adapter):
    before = world.raw_alloc(500)
    serve(adapter, ONE)
    adapter.engine.start_recording()
    raw = world.raw_alloc(5000)  # more than fits between slots
    assert live_foreign(adapter) == 5000
    world.log()
    world.raw_delete(raw)
    world.raw_delete(before)
    assert world.log() == ["beneath: free(5120)", "beneath: free(512)"]
    assert live_foreign(adapter) == 0
    events = adapter.engine.events()
    assert events["kind"].tolist() == [REQUEST, FREE]


def test_freed_while_another_device_is_current(world, adapter_of):
    adapter = adapter_of(0)
    adapter_of(1)
    serve(adapter, ONE)
    adapter.engine.start_recording()
    slot, foreign = world.raw_alloc(1000), world.raw_alloc(5000)
    with world.on(device=1):
        world.raw_delete(slot)
        world.raw_delete(foreign)
    assert live_foreign(adapter) == 0
    adapter.engine.end_iteration()
    assert world.raw_alloc(1000) == slot
    assert world.living() == 1


def test_the_adapter_stays_while_raw_slots_live(world, adapter):
    """For they have no deleter that would bring them back to it."""
    serve(adapter, ONE)
    ours = world.current
    raw = world.raw_alloc(1000)
    adapter.engine.remove_plans()
    adapter.engine.detach_arena()
    adapter.uninstall()
    assert world.current == ours
    world.log()
    other = world.allocate(3000)
    other.free()
    assert world.log() == ["beneath: allocate(3000)", "beneath: free(3072)"]
    world.raw_delete(raw)
    assert world.living() == 0
    adapter.install()
    adapter.uninstall()
    assert world.current == world.upstream()


def test_raw_blocks_from_beneath_do_not_keep_it(world, adapter):
    adapter.engine.start_recording()
    raw = world.raw_alloc(1000)
    adapter.uninstall()
    assert world.current == world.upstream()
    world.raw_delete(raw)
    assert world.living() == 0


def test_an_address_that_comes_again_is_another_block(world, adapter):
    """A block that died while the adapter was away is forgotten when its address comes again."""
    adapter.engine.start_recording()
    gone = world.raw_alloc(1000)
    adapter.uninstall()
    world.raw_delete(gone)
    adapter.install()
    again = [world.raw_alloc(1000) for _ in range(4)]
    for raw in again:
        world.raw_delete(raw)
    assert world.living() == 0


def test_the_stream_of_a_raw_block_that_was_freed_unseen_is_forgotten(world, adapter):
    """Its address comes again, as an arena of another stream, whose slot that stream then uses."""
    adapter.engine.start_recording()
    with world.on(stream=3):
        raw = world.raw_alloc(4096)
    adapter.engine.stop_recording()
    adapter.uninstall()
    world.raw_delete(raw)
    adapter.install()
    bases = serve(adapter, [Slot(1000, 0, end=1), Slot(1000, 0, end=2)])
    assert bases[0] == raw
    first = world.allocate(1000)
    with world.held(stream=3):
        first.record_stream(3)
        first.free()
        assert world.allocate(1000).address != bases[0]


def test_an_address_that_comes_again_is_one_block(world, adapter):
    engine = adapter.engine
    engine.start_recording()
    raw = world.raw_alloc(4096)
    adapter.uninstall()
    world.raw_delete(raw)
    adapter.install()
    assert world.raw_alloc(4096) == raw
    assert engine.statistics()["live_fallback_bytes"] == 4096
    world.raw_delete(raw)
    assert engine.statistics()["live_fallback_bytes"] == 0
