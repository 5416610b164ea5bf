"""For random programs, a session never returns memory that is in use."""

import tempfile
import warnings
from itertools import chain
from pathlib import Path
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from pgmo.allocator import heuristics
from pgmo.allocator.session import installer
from tests.unit.allocator.simulated import SimulatedAdapter, open_session

SIZES = st.sampled_from([1, 4, 64, 65, 512, 4096, 4100, 1 << 16, 1 << 20])
STREAMS = st.sampled_from([0, 0, 0, 7])

# A program is a list of iterations, and an iteration is a list of actions: request bytes on a
# stream, free a live block, or use a live block on another stream. Most iterations repeat a base
# sequence with a few changed actions.
ACTION = st.one_of(
    st.tuples(st.just("request"), st.tuples(SIZES, STREAMS)),
    st.tuples(st.just("free"), st.integers(0, 1 << 16)),
    st.tuples(st.just("free"), st.integers(0, 1 << 16)),
    st.tuples(st.just("share"), st.integers(0, 1 << 16)),
)
BASE = st.lists(ACTION, min_size=3, max_size=40)
EDIT = st.tuples(
    st.sampled_from(["drop", "insert", "replace", "swap", "cut"]), st.integers(0, 1 << 16), ACTION
)
PROGRAM = st.lists(st.lists(EDIT, max_size=3), min_size=6, max_size=16)


def edited(base, edits):
    actions = list(base)
    for kind, place, action in edits:
        at = place % max(1, len(actions))
        if kind == "drop":
            del actions[at : at + 1]
        elif kind == "insert":
            actions.insert(at, action)
        elif kind == "replace":
            actions[at : at + 1] = [action]
        elif kind == "swap":
            actions[at : at + 2] = actions[at : at + 2][::-1]
        else:
            del actions[at:]
    return actions


class Program:
    """Program that runs actions on a framework, whose addresses the oracle checks."""

    def __init__(self, adapter):
        self.adapter = adapter
        self.living: list[int] = []

    def run(self, actions):
        for action, value in actions:
            if action == "request":
                self.living.append(self.adapter.request(*value))
            elif self.living and action == "free":
                self.adapter.free(self.living.pop(value % len(self.living)))
            elif self.living:
                self.adapter.engine.shared(self.living[value % len(self.living)], 5)

    def drop(self):
        while self.living:
            self.adapter.free(self.living.pop())

    def check_the_end(self):
        """Check that all memory is freed after the last block is freed."""
        self.drop()
        now = self.adapter.engine.statistics()
        assert now["live_slot_bytes"] == now["live_fallback_bytes"] == 0
        assert now["arenas"] == 0
        assert len(self.adapter.oracle) == 0
        taken = list(chain(*self.adapter.arenas.values()))
        assert sorted(base for base, _ in taken) == sorted(self.adapter.returned)


def run(program, session, iterations, keep_alive=False):
    for actions in iterations:
        program.run(actions)
        if not keep_alive:
            program.drop()
        session.step()


@settings(max_examples=150)
@given(BASE, PROGRAM, st.booleans(), st.sampled_from([3, 5]), st.sampled_from([1, 16]))
def test_no_program_gets_memory_that_is_in_use(base, edits, keep_alive, most_recorded, most_plans):
    program = Program(SimulatedAdapter())
    chosen = heuristics.Heuristics(usual_recording=most_recorded)
    with (
        warnings.catch_warnings(),
        mock.patch.object(installer, "MOST_PLANS", most_plans),
        mock.patch.object(heuristics, "current", chosen),
    ):
        warnings.simplefilter("ignore")
        with open_session(program.adapter) as session:
            run(program, session, [edited(base, one) for one in edits], keep_alive)
            for one in session.history:
                assert one.hits + sum(one.misses.values()) <= one.requests
    program.check_the_end()


@settings(max_examples=60)
@given(BASE, PROGRAM, st.booleans())
def test_a_saved_plan_hands_out_no_memory_in_use(base, edits, keep_alive):
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = Program(SimulatedAdapter())
        with open_session(program.adapter, save=folder, model_name="x") as session:
            run(program, session, [[*base, ("request", (64, 0))], *[base] * 7], keep_alive)
        program.check_the_end()
        plan = Path(folder) / "x.pgmoplan"
        if not plan.exists():
            return  # the adapter never frees
        program = Program(SimulatedAdapter())
        with open_session(program.adapter, plan=plan) as session:
            run(program, session, [edited(base, one) for one in edits], keep_alive)
        program.check_the_end()


@settings(max_examples=60)
@given(BASE, st.integers(7, 10))
def test_a_program_that_repeats_is_served_from_slots(base, iterations):
    base = [action for action in base if action[0] != "share"]  # shared blocks have no slots
    program = Program(SimulatedAdapter())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some base sequences have no requests or no frees
        with open_session(program.adapter) as session:
            run(program, session, [base] * iterations)
            if session.plan is not None:
                assert session.history[-1].hits == session.history[-1].requests
                assert session.plan.arena >= session.plan.max_load
