"""Sessions in unified memory, over CuPy, whose driver is replaced."""

import gc
import warnings

import pytest

import pgmo
from pgmo.allocator.adapters.managed_hints import MISSING
from pgmo.allocator.session.statistics import Phase
from pgmo.errors import AdapterError, OptionError
from tests.unit.allocator.cupy_program import Program
from tests.unit.allocator.simulated import LAYERS, Loop, run


@pytest.fixture
def told(driver):
    """What the driver is told."""
    return driver()[1]


def test_a_loop_larger_than_the_card_is_recorded_and_replayed(cupy, told):
    cupy.runtime.limit = 64 << 10
    loop = Loop(Program(cupy), LAYERS)
    before = cupy.cuda.get_allocator()
    with pytest.warns(UserWarning, match="to raise the batch size this does not pay"):
        with pgmo.optimize(framework="cupy", memory="managed") as session:
            run(loop, session, 10)
            assert session.history[-1].hit_rate == 1
            assert session.plan.arena > cupy.runtime.limit
            assert cupy.runtime.used() == 0
            assert cupy.runtime.used(kind="managed") >= session.plan.arena
            loop.finish()
        summary = session.summary()
    assert cupy.cuda.get_allocator() == before
    assert summary.card_room == 64 << 10
    assert summary.managed >= session.plan.arena
    assert summary.oversubscription == summary.managed / summary.card_room > 1
    assert "  unified    " in str(summary)
    prefetched = [line for line in told if line[0] == "prefetch" and line[3] == "device 0"]
    assert prefetched
    gc.collect()


def test_what_is_needed_first_is_prefetched_each_time_and_lies_in_the_arena(cupy, told):
    cupy.runtime.limit = 200 << 10
    loop = Loop(Program(cupy), LAYERS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pgmo.optimize(framework="cupy", memory="managed") as session:
            run(loop, session, 7)
            assert session.phase is Phase.REPLAY
            told.clear()
            run(loop, session, 1)
            once = list(told)
            run(loop, session, 1)
            assert told == once * 2
            arenas = [
                (address, address + size)
                for address, (_, size, kind) in cupy.runtime.living.items()
                if kind == "managed" and size >= session.plan.arena
            ]
            loop.finish()
    assert {what for what, *_ in once} == {"prefetch"}
    for _, address, size, _ in once:
        assert any(begin <= address and address + size <= end for begin, end in arenas)
    to_device = sum(size for _, _, size, where in once if where == "device 0")
    assert 0 < to_device <= 200 << 10


def test_where_all_fits_it_is_kept_on_the_device_and_nothing_is_said(cupy, told):
    loop = Loop(Program(cupy), LAYERS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pgmo.optimize(framework="cupy", memory="managed") as session:
            run(loop, session, 8)
            told.clear()
            run(loop, session, 4)
            loop.finish()
    assert told == []  # it is there already
    assert session.summary().oversubscription < 1


def test_without_bindings_it_runs_and_says_so(cupy, monkeypatch):
    monkeypatch.setattr("pgmo.allocator.adapters.managed_hints._bindings", lambda: None)
    loop = Loop(Program(cupy), LAYERS)
    with pgmo.optimize(framework="cupy", memory="managed") as session:
        run(loop, session, 7)
        loop.finish()
    assert session.history[-1].hit_rate == 1
    assert session.summary().notes.count(MISSING) == 1


def test_a_program_that_uses_unified_memory_itself_goes_on_to(cupy, told):
    loop = Loop(Program(cupy), LAYERS)
    with pgmo.managed(framework="cupy") as memory:
        with pgmo.optimize(framework="cupy", memory="managed") as session:
            run(loop, session, 7)
            assert cupy.runtime.used() == 0
        held = memory.bytes
        assert held > 0
        loop.finish()
    assert session.history[-1].hit_rate == 1
    # The recording is forgotten by nobody.
    assert memory.peak >= session.summary().managed > session.plan.arena


def test_a_session_that_outlives_the_program_s_own_block_goes_on(cupy, told):
    loop = Loop(Program(cupy), LAYERS)
    outer = pgmo.managed(framework="cupy")
    outer.__enter__()
    with pgmo.optimize(framework="cupy", memory="managed") as session:
        run(loop, session, 2)
        outer.__exit__(None, None, None)
        run(loop, session, 6)
        loop.finish()
    assert session.history[-1].hit_rate == 1


def test_so_are_sessions_of_several_frameworks(cupy, told):
    loop = Loop(Program(cupy), LAYERS)
    with pgmo.optimize(framework=("cupy",), memory="managed") as sessions:
        for _ in range(7):
            with sessions.iteration():
                loop()
        assert cupy.runtime.used() == 0
        loop.finish()
    assert sessions["cupy"].summary().managed > 0


def test_where_the_card_cannot_no_session_opens(cupy):
    cupy.runtime.concurrent = False
    allocator = cupy.cuda.get_allocator()
    with pytest.raises(AdapterError, match="cannot use unified memory"):
        pgmo.optimize(framework="cupy", memory="managed").__enter__()
    assert cupy.cuda.get_allocator() == allocator


def test_plans_within_a_budget_serve_from_both_memories(cupy, told):
    loop = Loop(Program(cupy), LAYERS)
    with pgmo.optimize(framework="cupy", budget="300 KiB") as session:
        run(loop, session, 8)
        plan = session.plan
        assert session.history[-1].hit_rate == 1
        assert 0 < plan.resident <= 300 << 10
        assert plan.spilled > 0
        assert cupy.runtime.used(kind="managed") == plan.spilled
        assert f"{plan.spilled / 1024:.0f} KiB of the arena are in" in str(session.summary())
    loop.finish()
    gc.collect()
    assert cupy.runtime.used(kind="managed") == 0
    assert [line[0] for line in told] == ["prefer", "read by"]
    assert told[0][3] == "host"


def test_a_saved_plan_that_spills_serves_again(cupy, told, tmp_path):
    for options in (
        {"save": tmp_path, "model_name": "loop", "budget": "300 KiB"},
        {"plan": tmp_path / "loop.pgmoplan"},
    ):
        loop = Loop(Program(cupy), LAYERS)
        with pgmo.optimize(framework="cupy", **options) as session:
            run(loop, session, 7)
            assert session.history[-1].hit_rate == 1
            assert session.plan.spilled > 0
            assert cupy.runtime.used(kind="managed") > 0
            loop.finish()


def test_a_budget_is_kept_when_sizes_grow(cupy, told):
    loop = Loop(Program(cupy), LAYERS)
    with pgmo.optimize(framework="cupy", budget="300 KiB") as session:
        run(loop, session, 8)
        loop.scale = 2
        with pytest.warns(UserWarning, match="recording again"):
            run(loop, session, 9)
        assert session.plan.resident <= 300 << 10
        assert session.plan.spilled > 300 << 10
        assert session.history[-1].hit_rate == 1
        loop.finish()


def test_where_nothing_can_be_spilled_the_framework_serves(cupy):
    cupy.runtime.concurrent = False
    loop = Loop(Program(cupy), LAYERS)
    with pytest.warns(UserWarning, match="cannot use unified memory"):
        with pgmo.optimize(framework="cupy", budget="300 KiB") as session:
            run(loop, session, 8)
            loop.finish()
    assert session.history[-1].phase is Phase.BYPASS


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory": "host"}, "memory='host' is not one of device, managed"),
        ({"memory": "managed", "device": "cpu"}, "unified memory is for CUDA devices"),
        ({"budget": "1 GiB", "device": "cpu"}, "budget= is for CUDA devices"),
        ({"budget": "much"}, "cannot read 'much' as a size"),
    ],
)
def test_options_that_cannot_be_used(options, message):
    with pytest.raises(OptionError, match=message):
        pgmo.optimize(**options)
