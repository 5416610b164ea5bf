"""Whatever a program does, a session never hands out memory that is in use."""

import warnings

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.allocator.simulated import SimulatedFramework, open_session

SIZES = st.sampled_from([1, 4, 64, 65, 512, 4096, 4100, 1 << 16, 1 << 20])

# A program is a list of iterations, each a list of actions: request so many bytes, or free one of
# the living blocks. Most iterations repeat a base sequence with a few actions changed.
ACTION = st.one_of(
    st.tuples(st.just("request"), SIZES),
    st.tuples(st.just("free"), st.integers(0, 1 << 16)),
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


@settings(max_examples=150, deadline=None)
@given(BASE, PROGRAM, st.booleans(), st.sampled_from([3, 5]))
def test_no_program_gets_memory_that_is_in_use(base, program, keep_alive, most_recorded):
    framework = SimulatedFramework()
    living: list[int] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with open_session(framework, max_record_iterations=most_recorded) as session:
            for edits in program:
                for action, value in edited(base, edits):
                    if action == "request":
                        living.append(framework.request(value))  # the oracle checks it
                    elif living:
                        framework.free(living.pop(value % len(living)))
                if not keep_alive:
                    while living:
                        framework.free(living.pop())
                session.step()
            for one in session.history:
                assert one.hits + sum(one.misses.values()) <= one.requests
    for address in living:
        framework.free(address)
    now = framework.engine.statistics()
    assert now["live_slot_bytes"] == now["live_fallback_bytes"] == 0
    assert now["arenas"] == 0
    assert len(framework.oracle) == 0


@settings(max_examples=60, deadline=None)
@given(BASE, st.integers(7, 10))
def test_a_program_that_repeats_is_served_from_slots(base, iterations):
    framework = SimulatedFramework()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some bases allocate nothing, or free nothing
        with open_session(framework) as session:
            for _ in range(iterations):
                living: list[int] = []
                for action, value in base:
                    if action == "request":
                        living.append(framework.request(value))
                    elif living:
                        framework.free(living.pop(value % len(living)))
                while living:
                    framework.free(living.pop())
                session.step()
            if session.plan is not None:
                assert session.history[-1].hits == session.history[-1].requests
                assert session.plan.arena >= session.plan.max_load
