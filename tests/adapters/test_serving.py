"""Whole sessions, and what the allocator beneath sees of them; the rest is in the suite."""

from pgmo.profiler.recording import FREE, REQUEST, STREAM
from tests.adapters.world import Slot, in_thread, serve
from tests.unit.allocator.simulated import open_session


def test_each_event_has_bytes_stream_and_block(world, adapter):
    engine = adapter.engine
    engine.start_recording()
    first = world.allocate(1000)
    with world.on(stream=4):
        second = world.allocate(2000)
    in_thread(first.free)
    second.record_stream(4)  # its own
    second.record_stream(0)
    second.free()
    events = engine.events()
    assert events["kind"].tolist() == [REQUEST, REQUEST, FREE, STREAM, FREE]
    assert events["block"].tolist() == [0, 1, 0, 1, 1]
    assert events["bytes"][:2].tolist() == [1000, 2000]
    assert events["stream"][:2].tolist() == [0, 1]  # numbered in the order of first use
    assert world.living() == 0


def test_a_block_that_other_streams_use_is_not_planned(world, adapter_of):
    """And goes on to be used there as without pgmo."""
    adapter = adapter_of(0)

    def iteration():
        shared, own = world.allocate(1000), world.allocate(2000)
        shared.record_stream(3)
        shared.free()
        own.free()

    with open_session(adapter) as session:
        for _ in range(6):
            with session.iteration():
                iteration()
        assert session.plan.arena == 2048
        world.log()
        with session.iteration():
            iteration()
        names = [line.partition("(")[0] for line in world.log()]
        assert names == ["beneath: allocate", "beneath: recordStream", "beneath: free"]
    assert world.living() == 0


def test_the_profiler_is_told_of_slots(world, adapter):
    serve(adapter, [Slot(1000, 0, end=1)])
    world.ask("profile", 1)
    world.log()
    block = world.allocate(1000)
    assert world.log() == ["profiler: 1000, 1000 of 4096 on cuda:0"]
    block.free()
    assert world.log() == ["profiler: -1000, 0 of 4096 on cuda:0"]
    adapter.engine.end_iteration()
    with world.held(stream=3):
        late = world.allocate(1000)
        late.record_stream(3)
        late.free()
        assert world.log() == ["profiler: 1000, 1000 of 4096 on cuda:0"]
    world.adapter.ask("pgmo_poll", 0)
    assert world.log() == ["profiler: -1000, 0 of 4096 on cuda:0"]
    world.ask("profile", 0)
    world.allocate(1000).free()
    assert [line for line in world.log() if line.startswith("profiler")] == []
