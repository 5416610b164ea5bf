"""Whole sessions: what is recorded is replayed from slots."""

import numpy as np
import pytest

from pgmo.allocator.statistics import Phase
from pgmo.profiler.recording import FREE, REQUEST, STREAM
from tests.adapters.world import Slot, in_thread, serve
from tests.unit.allocator.simulated import LAYERS, Loop, Oracle, open_session, run


class Program:
    """What `Loop` needs: requests by address. Every block is filled, and intact at its end."""

    def __init__(self, world):
        self._world = world
        self._blocks = {}
        self._oracle = Oracle()

    def request(self, size):
        block = self._world.allocate(size)
        assert block.address % 512 == 0
        self._oracle.add(block.address, size)
        block.fill(len(self._blocks) % 251)
        self._blocks[block.address] = block, len(self._blocks) % 251
        return block.address

    def free(self, address):
        block, value = self._blocks.pop(address)
        assert block.holds(value)
        self._oracle.remove(address)
        block.free()

    @property
    def addresses(self):
        return list(self._blocks)


def test_records_then_serves_everything_from_slots(world, framework_of):
    program = Program(world)
    loop = Loop(program, LAYERS)
    with open_session_of(framework_of) as session:
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


def test_blocks_that_live_on_give_the_arena_back_with_the_last_of_them(world, framework_of):
    program = Program(world)
    loop = Loop(program, LAYERS)
    with open_session_of(framework_of) as session:
        run(loop, session, 8)
        arena = session.plan.arena
    assert world.used() >= arena
    loop.drop()
    assert world.living() == len(loop.state)
    loop.finish()
    assert world.living() == 0
    assert program.addresses == []


def test_a_second_session_serves_again(world, framework_of):
    framework = framework_of(0)
    framework.uninstall()
    program = Program(world)
    for _ in range(2):
        loop = Loop(program, LAYERS)
        with open_session(framework) as session:
            run(loop, session, 6)
            assert session.history[-1].hit_rate == 1
            loop.finish()
    assert world.living() == 0


def test_a_pause_delegates(world, framework_of):
    program = Program(world)
    loop = Loop(program, LAYERS)
    with open_session_of(framework_of) as session:
        run(loop, session, 6)
        with session.pause():
            world.log()
            evaluation = world.allocate(LAYERS[0])
            assert world.log() == [f"beneath: allocate({LAYERS[0]})"]
        run(loop, session, 1)
        assert session.history[-1].hit_rate == 1
        evaluation.free()
        loop.finish()
    assert world.living() == 0


def test_each_event_has_bytes_stream_and_block(world, framework):
    engine = framework.engine
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


def test_a_block_that_other_streams_use_is_not_planned(world, framework_of):
    """And goes on to be used there as without pgmo."""
    framework = framework_of(0)

    def iteration():
        shared, own = world.allocate(1000), world.allocate(2000)
        shared.record_stream(3)
        shared.free()
        own.free()

    with open_session(framework) as session:
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


def test_slots_of_each_stream_are_in_its_own_arena(world, framework_of):
    framework = framework_of(0)
    seen = {}

    def iteration():
        for stream in (0, 3, 5):
            with world.on(stream=stream):
                block = world.allocate(3000)
                seen[stream] = block.address
                block.free()

    with open_session(framework) as session:
        for _ in range(6):
            with session.iteration():
                iteration()
        assert session.history[-1].hit_rate == 1
        assert session.plan.arena == 3 * 3072
        assert len(set(seen.values())) == 3
        assert np.unique(session.plan.stream).tolist() == [0, 1, 2]
    assert world.living() == 0


def test_the_profiler_is_told_of_slots(world, framework):
    serve(framework, [Slot(1000, 0, end=1)])
    world.ask("profile", 1)
    world.log()
    block = world.allocate(1000)
    assert world.log() == ["profiler: 1000, 1000 of 4096 on cuda:0"]
    block.free()
    assert world.log() == ["profiler: -1000, 0 of 4096 on cuda:0"]
    framework.engine.end_iteration()
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


@pytest.mark.parametrize("size", [1, 511, 512, 513])
def test_slots_keep_to_the_alignment_of_torch(world, framework_of, size):
    framework = framework_of(0)
    with open_session(framework) as session:
        for _ in range(6):
            with session.iteration():
                blocks = [world.allocate(size) for _ in range(3)]
                addresses = [block.address for block in blocks]
                for block in blocks:
                    block.free()
        assert session.history[-1].hit_rate == 1
    assert all(address % 512 == 0 for address in addresses)
    assert len(set(addresses)) == 3


def open_session_of(framework_of):
    return open_session(framework_of(0))
