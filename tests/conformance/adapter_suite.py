"""Tests that adapters for all frameworks must pass.

Test files with a fixture `subject` import them: tests/conformance/test_adapters.py without a GPU,
and tests/gpu/test_adapters.py with one.
"""

import os
import random
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from pgmo.allocator.session.statistics import MISS_REASONS, Phase
from tests.unit.allocator.simulated import LAYERS, Loop, run

ROOT = Path(__file__).parents[2]
SIZES = (3000, 1, 70_000, 513, 64)

AT_EXIT = """
import sys
session = subject.session().__enter__()
for _ in range(7):
    with session.iteration():
        subject.free(subject.request(1000))
assert session.history[-1].hit_rate == 1
subject.request(1000), subject.request(5000)  # a slot, and a block of the framework
class Late: pass
sys.late = [subject, session, Late()]
print("end")
"""


def engine_of(session):
    return session._lifecycle.state.adapter.engine


def simple(subject):
    """Run an iteration that frees all its blocks, and return their addresses."""
    first, second, third = (subject.request(size) for size in SIZES[:3])
    subject.free(second)
    fourth, fifth = (subject.request(size) for size in SIZES[3:])
    for address in (first, third, fourth, fifth):
        subject.free(address)
    return [first, second, third, fourth, fifth]


def replay(session, subject, times=6):
    for _ in range(times):
        with session.iteration():
            simple(subject)
    assert session.phase is Phase.REPLAY
    assert session.history[-1].hit_rate == 1


def in_threads(body, count=1):
    """Run a function on new threads, and raise what it raises."""
    with ThreadPoolExecutor(count) as pool:
        for running in [pool.submit(body) for _ in range(count)]:
            running.result()


def test_blocks_are_where_the_plan_has_them(subject):
    with subject.session() as session:
        replay(session, subject)
        seen = []
        for _ in range(3):
            with session.iteration():
                seen.append(simple(subject))
        assert seen[0] == seen[1] == seen[2]
        assert session.plan.size.tolist() == list(SIZES)
        base = np.array(seen[0]) - session.plan.offset
        assert len(set(base.tolist())) == 1


def test_a_loop_is_served_from_slots_alone(subject):
    """The loop has blocks that wrap, a doubly live block and persistent state."""
    loop = Loop(subject, LAYERS)
    with subject.session() as session:
        run(loop, session, 8)
        assert all(one.hits == one.requests for one in session.history[-3:])
        assert session.plan.arena >= session.plan.max_load
        loop.finish()
        assert session.statistics["live_slot_bytes"] == 0


def test_unplanned_requests_go_to_the_framework(subject):
    with subject.session() as session:
        replay(session, subject)
        before = session.statistics["live_fallback_bytes"]  # live blocks of earlier sessions
        with session.iteration():
            foreign = subject.request(1 << 20)
            assert not engine_of(session).owns(foreign)
            slot = subject.request(SIZES[0])
            assert engine_of(session).owns(slot)
            assert session.statistics["live_fallback_bytes"] == before + (1 << 20)
            subject.free(foreign)
            subject.free(slot)
            assert session.statistics["live_fallback_bytes"] == before
        assert session.history[-1].misses["unknown"] == 1
        replay(session, subject, 1)


def test_blocks_end_on_other_threads(subject):
    def here():
        addresses = [subject.request(size) for size in SIZES]
        in_threads(lambda: [subject.free(address) for address in addresses])

    def there():
        addresses = []
        in_threads(lambda: addresses.extend(subject.request(size) for size in SIZES))
        for address in addresses:
            subject.free(address)

    with subject.session() as session:
        for turn in range(8):
            with session.iteration():
                there() if turn % 2 else here()
        assert session.history[-1].hit_rate == session.history[-2].hit_rate == 1
        assert session.statistics["live_slot_bytes"] == 0


def test_threads_at_once_get_no_memory_that_another_has(subject):
    """On an overlap, the engine's map of live blocks would abort the process."""

    def work():
        for turn in range(100):
            blocks = [subject.allocate(SIZES[(turn + at) % 5]) for at in range(3)]
            assert len({subject.address(block) for block in blocks}) == 3
            for block in blocks:
                subject.let_go(block)

    with subject.session() as session:
        replay(session, subject)
        with session.iteration():
            in_threads(work, 4)
        assert session.history[-1].requests == 4 * 100 * 3
        assert session.history[-1].hits > 0
        assert session.statistics["live_slot_bytes"] == 0


def test_blocks_of_no_bytes_are_no_requests(subject):
    with subject.session() as session:
        for _ in range(7):
            with session.iteration():
                empty = subject.allocate(0)
                assert subject.address(empty) == 0
                simple(subject)
                subject.let_go(empty)
                del empty
        assert session.history[-1].requests == session.history[-1].hits == len(SIZES)


def test_blocks_outlive_the_session_and_the_arena_goes_with_the_last(subject):
    with subject.session() as session:
        replay(session, subject)
        with session.iteration():
            slots = [subject.request(size) for size in SIZES[:3]]
            foreign = subject.request(1 << 20)
        engine = engine_of(session)
    assert engine.statistics()["arenas"] == 1
    simple(subject)
    for address in (slots[0], foreign, slots[2]):
        subject.free(address)
    assert engine.statistics()["arenas"] == 1
    subject.free(slots[1])
    assert engine.statistics()["arenas"] == 0
    assert engine.statistics()["live_slot_bytes"] == 0


def test_each_stream_has_an_arena_of_its_own(subject):
    if len(subject.streams) == 1:
        pytest.skip("there is one stream")

    def iteration():
        addresses = [subject.request(3000, stream) for stream in subject.streams]
        for address in addresses:
            subject.free(address)
        return addresses

    with subject.session() as session:
        for _ in range(8):
            with session.iteration():
                addresses = iteration()
        assert session.history[-1].hit_rate == 1
        assert len(np.unique(session.plan.stream)) == 3
        assert session.plan.arena == 3 * 3072
        assert len(set(addresses)) == 3
        assert engine_of(session).statistics()["arenas"] == 3


def test_sessions_come_and_go(subject):
    before = [subject.request(size) for size in SIZES]
    for _ in range(2):
        with subject.session() as session:
            replay(session, subject)
            with session.iteration():
                inside = subject.request(SIZES[0])
        simple(subject)
        assert not engine_of(session).owns(before[0])
        subject.free(before.pop())
        before.append(inside)
    subject.free_all()


def test_a_pause_delegates(subject):
    with subject.session() as session:
        replay(session, subject)
        requests = session.statistics["requests"]
        with session.pause():
            evaluation = subject.request(SIZES[0])
            assert not engine_of(session).owns(evaluation)
        assert session.statistics["requests"] == requests
        replay(session, subject, 1)
        subject.free(evaluation)


def test_an_exception_ends_an_iteration_and_nothing_else(subject):
    def fail():
        addresses = [subject.request(size) for size in SIZES[:3]]
        try:
            raise ZeroDivisionError
        finally:
            for address in addresses:
                subject.free(address)

    with subject.session() as session:
        replay(session, subject)
        with pytest.raises(ZeroDivisionError), session.iteration():
            fail()
        assert session.history[-1].requests == 3
        replay(session, subject, 1)
        with pytest.raises(ZeroDivisionError), session.pause():
            fail()
        replay(session, subject, 1)


def test_a_plan_serves_another_session_from_its_first_iteration_on(subject, tmp_path):
    for options in ({"save": tmp_path, "model_name": "loop"}, {"plan": tmp_path / "loop.pgmoplan"}):
        loop = Loop(subject, LAYERS)
        with subject.session(**options) as session:
            run(loop, session, 7)
            assert session.history[-1].hit_rate == 1
            loop.finish()
    assert session.history[0].phase is Phase.REPLAY
    first = session.history[0]
    assert first.hits + first.misses["persistent"] == first.requests


def test_addresses_are_aligned(subject):
    def iteration():  # `request` checks the address
        addresses = [subject.request(size) for size in (1, 63, 65, 511, 512, 513, 1)]
        for address in addresses:
            subject.free(address)

    with subject.session() as session:
        for _ in range(7):
            with session.iteration():
                iteration()
        assert session.history[-1].hit_rate == 1


@pytest.mark.parametrize("seed", [1, 2])
def test_blocks_of_random_programs_do_not_overlap(subject, seed):
    """The program skips requests, changes sizes, and keeps blocks across iterations."""
    draw = random.Random(seed)
    sizes = [draw.choice((1, 512, 3000, 70_000)) * draw.randint(1, 4) for _ in range(30)]
    held = []

    def iteration(disorder):
        own = []
        for size in sizes:
            if draw.random() < disorder:
                size = draw.choice((size, size + 1, 2 * size, draw.randint(1, 100_000)))
            if draw.random() >= disorder:
                own.append(subject.request(size))
            if len(own) > 8:
                subject.free(own.pop(draw.randrange(len(own)) if draw.random() < disorder else 0))
        held.extend(own)
        while len(held) > (8 if disorder else 0):
            subject.free(held.pop(0))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings that the session records again
        with subject.session() as session:
            before = session.statistics["live_fallback_bytes"]  # live blocks of earlier sessions
            for turn in range(24):
                with session.iteration():
                    iteration(0.2 if turn > 7 and turn % 3 else 0)
            assert session.statistics["hits"] > 0
            while held:
                subject.free(held.pop())
            assert session.statistics["live_slot_bytes"] == 0
            assert session.statistics["live_fallback_bytes"] == before
    _assert_statistics_add_up(session)


def _assert_statistics_add_up(session):
    replayed = [one for one in session.history if one.phase is Phase.REPLAY]
    for one in replayed:
        assert one.requests == one.hits + sum(one.misses.values())
        assert one.bytes_hit <= one.bytes_requested
    counted = session.statistics
    assert counted["requests"] == counted["hits"] + sum(counted[name] for name in MISS_REASONS)
    assert counted["hits"] == sum(one.hits for one in session.history)
    summary = session.summary()
    assert summary.iterations == len(session.history)
    assert summary.requests == sum(one.requests for one in replayed)
    assert summary.bytes_hit == sum(one.bytes_hit for one in replayed)


def test_blocks_may_outlive_the_interpreter(subject):
    if not subject.program:
        pytest.skip("the end of a process frees nothing here")
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", subject.program + AT_EXIT],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "end\n", "")
