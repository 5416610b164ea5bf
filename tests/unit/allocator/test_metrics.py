"""Metrics of sessions on a simulated framework."""

import sys
from types import SimpleNamespace

import pgmo
from pgmo.allocator.metrics import session_metrics
from tests.unit.allocator.cupy_program import Program
from tests.unit.allocator.simulated import LAYERS, Loop, SimulatedAdapter, open_session, run

MIB = 1 << 20


def figures(session):
    found = session_metrics(session)
    return [found[f"pgmo/{name}"] for name in ("peak_live", "reserved", "stuck")]


def test_figures_of_cupy_are_not_those_of_torch(cupy, monkeypatch):
    torch = SimpleNamespace(
        cuda=SimpleNamespace(memory_stats=lambda _: {"allocated_bytes.all.peak": 4711})
    )
    loop = Loop(Program(cupy), LAYERS)
    with pgmo.optimize(framework="cupy") as session:
        assert session.framework == "cupy"
        run(loop, session, 6)
        monkeypatch.setitem(sys.modules, "torch", torch)
        peak_live, reserved, _ = figures(session)
        monkeypatch.undo()
        assert peak_live >= sum(LAYERS)
        assert reserved >= session.plan.arena
        loop.finish()


def test_reserved_bytes_fall_again():
    framework = SimulatedAdapter()
    with open_session(framework) as session:
        assert figures(session) == [0, 0, 0]
        large, small = framework.request(8 * MIB), framework.request(MIB)
        assert figures(session) == [9 * MIB, 9 * MIB, 0]
        framework.free(large)
        assert figures(session) == [9 * MIB, MIB, 0]
        session.step()
        assert figures(session) == [9 * MIB, MIB, 0]
        framework.free(small)


def test_before_the_first_iteration_nothing_is_stuck(tmp_path):
    framework = SimulatedAdapter()
    loop = Loop(framework, LAYERS)
    with open_session(framework) as first:
        run(loop, first, 6)
    with open_session(framework, plan=first.plan) as session:
        _, reserved, stuck = figures(session)
        assert reserved >= first.plan.arena
        assert stuck == 0
        run(loop, session, 2)
        peak_live, reserved, stuck = figures(session)
        assert stuck == max(0, reserved - peak_live)
        loop.finish()


def test_the_peak_of_the_latest_iteration_counts_in_long_sessions():
    framework = SimulatedAdapter()
    loop = Loop(framework, LAYERS)
    with open_session(framework) as session:
        run(loop, session, 32)
        assert figures(session)[0] < 64 * MIB
        framework.free(framework.request(64 * MIB))
        assert figures(session)[0] >= 64 * MIB
        run(loop, session, 1)
        assert figures(session)[0] >= 64 * MIB
        loop.finish()
