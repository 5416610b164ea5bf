"""Recording and replay under the plug-in."""

import pytest

from pgmo.allocator.statistics import Phase
from pgmo.allocator.torch_plugin import TorchPlugin
from pgmo.errors import AdapterError
from tests.unit.allocator.plugin.machine import (
    MIB,
    OTHER,
    SIDE,
    PluginFramework,
)
from tests.unit.allocator.simulated import LAYERS, Loop, open_session, run


def test_loop_is_recorded_and_replayed_from_slots(framework: PluginFramework):
    machine = framework.machine
    loop = Loop(framework, LAYERS)
    with open_session(framework) as session:
        run(loop, session, 5)
        before = machine.calls("allocate_async")
        run(loop, session, 3)
        assert machine.calls("allocate_async") == before
    assert [one.phase for one in session.history[4:]] == [Phase.REPLAY] * 4
    assert all(one.hits == one.requests for one in session.history[4:])
    loop()  # outside of the session: the driver's blocks, while slots are freed
    loop.finish()
    assert len(framework.oracle) == 0
    assert machine.used() == 0  # the arena has gone back with its last block


def test_session_from_a_saved_plan(framework: PluginFramework, libraries, tmp_path):
    loop = Loop(framework, LAYERS)
    with open_session(framework, save=tmp_path, model_name="loop") as session:
        run(loop, session, 6)
    loop.finish()
    fresh = PluginFramework(libraries.device())
    loop = Loop(fresh, LAYERS)
    with open_session(fresh, plan=tmp_path / "loop.pgmoplan") as session:
        run(loop, session, 4)
    assert session.history[-1].hits == session.history[-1].requests > 0
    loop.finish()
    assert fresh.machine.used() == 0


def test_streams_are_numbered_in_order_of_first_use(framework: PluginFramework):
    machine, engine = framework.machine, framework.engine
    framework.install()
    machine.free(machine.alloc(512, SIDE))  # before recording, and still the first
    engine.start_recording()
    blocks = [machine.alloc(512, stream) for stream in (OTHER, 0, SIDE, OTHER, 0x1)]
    events = engine.events()
    assert events["stream"].tolist() == [2, 0, 1, 2, 3]
    knows = machine.plugin.pgmo_plugin_knows_stream
    assert [knows(machine.ordinal, number) for number in range(5)] == [1, 1, 1, 1, 0]
    # Another stream in each thread by the same handle: its blocks are nobody else's.
    blocks.append(machine.alloc(512, 0x2))
    assert len(engine.events()) == len(events)
    engine.stop_recording()
    for block in blocks:
        machine.free(block)


def test_two_engines_cannot_share_a_device(framework: PluginFramework):
    framework.install()
    framework.install()
    with pytest.raises(AdapterError, match="serves another engine on this device already"):
        TorchPlugin(framework.machine.ordinal, "0").install()


def test_each_stream_s_arena_is_allocated_and_freed_on_it(framework: PluginFramework):
    machine = framework.machine
    framework.install()
    assert framework.take_arena(MIB, 1) is None  # no request has used a second stream
    machine.free(machine.alloc(512, SIDE))
    memory = framework.take_arena(MIB, 1)
    assert machine.stream_of(memory.base) == SIDE
    memory.return_now()
    assert machine.used() == 0


def test_two_streams_are_served_from_an_arena_each(framework: PluginFramework):
    machine = framework.machine

    def side_work() -> None:
        blocks = [framework.request(size, stream=SIDE) for size in (8192, 4096)]
        where.append(blocks)
        for block in blocks:
            framework.free(block)

    where: list[list[int]] = []
    loop = Loop(framework, LAYERS)
    with open_session(framework) as session:
        run(loop, session, 8, extra=side_work)
        assert [one.hit_rate for one in session.history[-3:]] == [1.0] * 3
        assert {machine.stream_of(machine.base(block)[0]) for block in where[-1]} == {SIDE}
    loop.finish()
    assert machine.used() == 0


def test_region_is_nobody_s_freed_memory(framework: PluginFramework):
    machine = framework.machine
    machine.free(machine.alloc(MIB, SIDE))
    region = framework.take_region(MIB)
    assert (machine.plain(), machine.used()) == (MIB, 0)
    assert framework.memory_stats() == {"driver_bytes": 0, "graph_bytes": 0}
    region.return_now()
    assert machine.plain() == 0
