"""Whole sessions, and what the allocator beneath sees of them; the rest is in the suite."""

from pgmo.allocator.session.statistics import Phase
from pgmo.profiler.recording import FREE, REQUEST, STREAM
from tests.adapters.world import Slot, in_thread, serve
from tests.conformance.subjects import TorchCudaWorld
from tests.unit.allocator.simulated import LAYERS, Loop, open_session, run


def test_records_then_serves_everything_from_slots(world, adapter):
    subject = TorchCudaWorld(world, adapter)
    loop = Loop(subject, LAYERS)
    with subject.session() as session:
        run(loop, session, 6)
        world.log()
        run(loop, session, 2)
        assert [one.phase for one in session.history] == [Phase.RECORD] * 4 + [Phase.REPLAY] * 4
        assert all(one.hits == one.requests for one in session.history[4:])
        assert world.log() == []  # nothing reached the allocator beneath
        assert world.used() >= session.plan.arena
        loop.finish()
    assert world.living() == 0
    assert world.current == world.upstream()


def test_blocks_that_live_on_give_the_arena_back_with_the_last_of_them(world, adapter):
    subject = TorchCudaWorld(world, adapter)
    loop = Loop(subject, LAYERS)
    with subject.session() as session:
        run(loop, session, 8)
        arena = session.plan.arena
    assert world.used() >= arena
    loop.drop()
    assert world.living() == len(loop.state)
    loop.finish()
    assert world.living() == 0


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
