"""Plans that spill to unified memory, over a fake CuPy."""

import gc

import pytest

import pgmo
from pgmo.allocator.session.statistics import Phase
from pgmo.errors import OptionError
from tests.unit.allocator.cupy_program import Program
from tests.unit.allocator.simulated import LAYERS, Loop, run


@pytest.fixture
def calls(driver):
    """Return the list of the driver's hints."""
    return driver.calls


def test_plans_within_a_budget_serve_from_both_memories(cupy, calls):
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
    assert [line[0] for line in calls] == ["prefer", "read by"]
    assert calls[0][3] == "host"


def test_a_saved_plan_that_spills_serves_again(cupy, calls, tmp_path):
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


def test_a_budget_is_kept_when_sizes_grow(cupy, calls):
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


def test_the_framework_serves_if_nothing_can_be_spilled(cupy):
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
        ({"budget": "1 GiB", "device": "cpu"}, "budget= is for CUDA devices"),
        ({"budget": "much"}, "cannot read 'much' as a size"),
    ],
)
def test_options_that_cannot_be_used(options, message):
    with pytest.raises(OptionError, match=message):
        pgmo.optimize(**options)
