"""The session's life on a simulated framework."""

import os
import threading
import warnings

import numpy as np
import pytest

from pgmo.allocator.statistics import Phase
from pgmo.errors import AdapterError, FileError, OptionError, SessionError
from tests.unit.allocator.simulated import Loop, SimulatedFramework, open_session

LAYERS = [4096, 1 << 16, 1 << 14, 1 << 18, 512, 1 << 16]


@pytest.fixture
def framework() -> SimulatedFramework:
    return SimulatedFramework()


def run(loop, session, times, **kwargs):
    for _ in range(times):
        with session.iteration():
            loop(**kwargs)


def test_records_four_iterations_then_serves_everything_from_slots(framework):
    loop = Loop(framework, LAYERS)
    with open_session(framework) as session:
        run(loop, session, 8)
        phases = [one.phase for one in session.history]
        assert phases == [Phase.RECORD] * 4 + [Phase.REPLAY] * 4
        # Blocks of the recorded iterations live on into the first replayed one, but not as slots.
        assert all(one.hits == one.requests for one in session.history[4:])
        assert session.plan.arena >= session.plan.max_load
        assert session.profile.steady
        loop.finish()
    assert session.statistics["live_slot_bytes"] == 0


def test_first_iteration_with_optimizer_state_is_not_what_is_planned(framework):
    loop = Loop(framework, LAYERS)
    with open_session(framework) as session:
        run(loop, session, 6)
    assert len(session.profile) == 3 * len(LAYERS) + 1
    assert not session.profile.persistent.any()


def test_wrapping_and_doubly_live_blocks_are_told_apart(framework):
    loop = Loop(framework, LAYERS)
    with open_session(framework) as session:
        run(loop, session, 6)
    profile = session.profile
    doubly = np.flatnonzero(profile.turns == 2)
    assert profile.size[doubly].tolist() == [4]  # the loss
    # The gradients, and the first activation: they die before the next iteration's first request.
    assert np.count_nonzero(profile.end == profile.ticks) == len(LAYERS) + 1


def test_step_and_iteration_count_the_same(framework):
    loop = Loop(framework, LAYERS)
    with open_session(framework) as session:
        for _ in range(6):
            loop()
            session.step()
    assert [one.phase for one in session.history][-2:] == [Phase.REPLAY] * 2


def test_close_returns_to_bypass_with_blocks_alive(framework):
    loop = Loop(framework, LAYERS)
    with open_session(framework) as session:
        run(loop, session, 6)
    assert not framework.installed
    assert session.phase is Phase.CLOSED
    assert framework.engine.statistics()["arenas"] == 1  # gradients still live there
    loop()  # with the framework's own allocator, while slots are freed
    loop.finish()
    assert framework.engine.statistics()["arenas"] == 0
    assert framework.engine.statistics()["live_slot_bytes"] == 0


def test_second_session_in_one_process(framework):
    for _ in range(2):
        loop = Loop(framework, LAYERS)
        with open_session(framework) as session:
            run(loop, session, 6)
            assert session.history[-1].hit_rate == 1
        loop.finish()


def test_requests_in_a_pause_are_not_part_of_the_iteration(framework):
    loop = Loop(framework, LAYERS)

    def evaluate():
        with session.pause():
            framework.free(framework.request(12345))

    with open_session(framework) as session:
        run(loop, session, 4, extra=evaluate)
        run(loop, session, 4)
    assert all(one.hit_rate == 1 for one in session.history[4:])


@pytest.mark.filterwarnings("ignore:a pgmo session ended without")
def test_pauses_nest(framework):
    with open_session(framework) as session, session.pause():
        with session.pause():
            pass
        framework.free(framework.request(64))
        assert session.statistics["fallback_bytes"] == 0


def test_inserted_requests_cost_only_themselves(framework):
    loop = Loop(framework, LAYERS)

    def log():
        for size in (4, 4, 512):
            framework.free(framework.request(size))

    with open_session(framework) as session:
        run(loop, session, 6)
        run(loop, session, 1, extra=log)
        run(loop, session, 1)
    assert session.history[6].requests - session.history[6].hits <= 3
    assert session.history[7].hit_rate == 1


@pytest.mark.filterwarnings("ignore:pgmo. blocks that were not planned")
def test_diverging_program_is_recorded_again_and_served_meanwhile(framework):
    loop = Loop(framework, LAYERS)
    with open_session(framework) as session:
        run(loop, session, 6)
        other = Loop(framework, [1000 * (layer + 1) for layer in range(9)])
        with pytest.warns(UserWarning, match="recording again"):
            run(other, session, 8)
        assert session.history[-1].phase is Phase.REPLAY
        assert session.history[-1].known_rate == 1
        assert session.history[-1].hit_rate > 0.8  # the first loop's gradients hold some slots
        assert session.summary().plans == 2
        # Back to the first structure, whose plan is still there.
        run(loop, session, 2)
        assert session.history[-1].known_rate == 1
        loop.finish()
        other.finish()


@pytest.mark.filterwarnings("ignore:pgmo. blocks that were not planned")
def test_alternating_structures_each_use_their_plan(framework):
    one, two = Loop(framework, LAYERS), Loop(framework, [777 * (at + 1) for at in range(12)])
    with open_session(framework) as session:
        run(one, session, 6)
        with pytest.warns(UserWarning, match="recording again"):
            run(two, session, 8)
        for _ in range(4):
            run(one, session, 1)
            run(two, session, 1)
    last = session.history[-4:]
    assert {statistics.plan for statistics in last} == {0, 1}
    # Gradients of one live on into the other, so some slots are taken; most are not.
    assert min(statistics.hit_rate for statistics in last) > 0.6


def test_varying_lengths_are_served_by_one_plan(framework):
    loop = Loop(framework, LAYERS)
    with open_session(framework) as session:
        for scale in (3, 5, 2, 4, 1, 5, 2, 3):
            loop.scale = scale
            run(loop, session, 1)
        replayed = [one for one in session.history if one.phase is Phase.REPLAY]
        assert len(replayed) >= 3
        assert all(one.hit_rate == 1 for one in replayed[1:])
        assert session.summary().replans == 0


def test_longer_length_costs_one_replan(framework):
    loop = Loop(framework, LAYERS)
    with open_session(framework) as session:
        for scale in (3, 5, 2, 4, 1, 5):
            loop.scale = scale
            run(loop, session, 1)
        before = session.plan.arena
        loop.scale = 8
        run(loop, session, 1)
        assert session.history[-1].misses["too_large"] > 0
        for scale in (8, 1, 7, 8):
            loop.scale = scale
            run(loop, session, 1)
        assert session.summary().replans == 1
        assert session.plan.arena > before
        assert all(one.hit_rate == 1 for one in session.history[-3:])


def test_program_that_never_repeats_is_planned_with_a_warning_and_then_left_alone(framework):
    random = np.random.default_rng(0)
    with warnings.catch_warnings(record=True) as caught, open_session(framework) as session:
        warnings.simplefilter("always")
        for _ in range(40):
            with session.iteration():
                sizes = random.integers(1, 1 << 20, size=random.integers(10, 30))
                for address in [framework.request(int(size)) for size in sizes]:
                    framework.free(address)
    assert any("no two agree" in str(one.message) for one in caught)
    assert any("never repeat" in str(one.message) for one in caught)


def test_saved_plan_serves_from_the_second_iteration_of_another_process(framework, tmp_path):
    loop = Loop(framework, LAYERS)
    with open_session(framework, save=tmp_path, model_name="loop") as session:
        run(loop, session, 6)
    assert [path.name for path in session.saved] == ["loop.pgmoprof", "loop.pgmoplan"]

    fresh = SimulatedFramework()
    loop = Loop(fresh, LAYERS)
    with open_session(fresh, plan=tmp_path / "loop.pgmoplan") as session:
        run(loop, session, 4)
    first, *later = session.history
    # Were the first one served, the optimizer's state would settle in slots and stay there.
    assert (first.phase, first.hits) == (Phase.VERIFY, 0)
    assert all(one.phase is Phase.REPLAY and one.hit_rate == 1 for one in later)


def test_saved_plan_of_another_program_is_replaced(framework, tmp_path):
    with open_session(framework, save=tmp_path, model_name="loop") as session:
        run(Loop(framework, LAYERS), session, 6)
    fresh = SimulatedFramework()
    with open_session(fresh, plan=tmp_path / "loop.pgmoplan") as session:
        with pytest.warns(UserWarning, match="does not match this program"):
            run(Loop(fresh, [1000 * (at + 1) for at in range(9)]), session, 8)
    assert session.history[-1].hit_rate == 1


def test_exception_ends_the_iteration_early_and_the_session_goes_on(framework):
    loop = Loop(framework, LAYERS)
    with open_session(framework) as session:
        run(loop, session, 6)
        with pytest.raises(RuntimeError, match="boom"), session.iteration():
            left = framework.request(LAYERS[0])
            raise RuntimeError("boom")
        framework.free(left)
        run(loop, session, 2)
        assert session.history[-1].hit_rate == 1


def test_exception_while_recording_starts_the_recording_again(framework):
    loop = Loop(framework, LAYERS)
    with open_session(framework) as session:
        run(loop, session, 2)
        with pytest.raises(RuntimeError, match="boom"), session.iteration():
            framework.free(framework.request(64))
            raise RuntimeError("boom")
        run(loop, session, 6)
    assert session.history[-1].hit_rate == 1
    assert len(session.profile) == 3 * len(LAYERS) + 1


def test_exception_out_of_the_session_returns_to_bypass(framework):
    with pytest.raises(RuntimeError, match="boom"), open_session(framework) as session:
        run(Loop(framework, LAYERS), session, 6)
        raise RuntimeError("boom")
    assert not framework.installed
    assert session.phase is Phase.CLOSED


def test_model_changed_in_the_middle_of_an_iteration(framework):
    loop = Loop(framework, LAYERS)
    with open_session(framework) as session:
        run(loop, session, 6)
        loop.layers[2:4] = [12_345, 54_321, 99_999]
        with pytest.warns(UserWarning, match="recording again"):
            run(loop, session, 10)
    assert session.history[-1].hit_rate == 1


def test_decorated_function_is_one_iteration_a_call(framework):
    loop = Loop(framework, LAYERS)

    @open_session(framework)
    def train_step(times: int = 1) -> str:
        """Trains."""
        for _ in range(times):
            loop()
        return "done"

    assert train_step.__doc__ == "Trains."
    assert [train_step() for _ in range(6)] == ["done"] * 6
    assert train_step.session.history[-1].hit_rate == 1
    train_step.close()
    assert not framework.installed
    with pytest.raises(SessionError, match="has been closed"):
        train_step()


def test_blocks_that_never_die_and_hold_slots_cost_a_fresh_arena_once(framework):
    loop = Loop(framework, LAYERS)
    squatters = []

    def settle():
        squatters.extend(framework.request(size) for size in reversed(LAYERS))

    with open_session(framework) as session:
        run(loop, session, 6)
        run(loop, session, 1, extra=settle)
        assert session.history[-1].hits > 0
        with pytest.warns(UserWarning, match="a fresh arena was taken"):
            run(loop, session, 6)
        assert session.history[-1].hit_rate == 1
        assert framework.engine.statistics()["arenas"] == 2
        for address in squatters:
            framework.free(address)
        run(loop, session, 1)
        assert framework.engine.statistics()["arenas"] == 1


def test_one_small_squatter_under_a_large_block_counts_by_its_bytes(framework):
    loop = Loop(framework, [1 << 20, *LAYERS])
    with open_session(framework) as session:
        run(loop, session, 6)
        with session.iteration():
            squatter = framework.request(1 << 20)  # taken for the first activation
            loop()
        with pytest.warns(UserWarning, match="hold the slots of"):
            run(loop, session, 6)
        assert session.history[-1].hit_bytes_rate == 1
        framework.free(squatter)


def test_no_memory_for_a_fresh_arena_leaves_the_old_one_serving(framework, monkeypatch):
    loop = Loop(framework, [1 << 20, *LAYERS])
    with open_session(framework) as session:
        run(loop, session, 6)

        def refuse(size):
            raise AdapterError("no memory")

        monkeypatch.setattr(framework, "attach_arena", refuse)
        with session.iteration():
            framework.request(1 << 20)
            loop()
        with pytest.warns(UserWarning, match="no memory for a fresh arena"):
            run(loop, session, 6)
        assert session.history[-1].hits > 0


def test_no_memory_for_the_first_arena_means_bypass(framework, monkeypatch):
    def refuse(size):
        raise AdapterError("no memory")

    monkeypatch.setattr(framework, "attach_arena", refuse)
    loop = Loop(framework, LAYERS)
    with open_session(framework) as session:
        with pytest.warns(UserWarning, match="could not be had: no memory"):
            run(loop, session, 8)
        assert session.phase is Phase.BYPASS
        assert session.history[-1].hits == 0


@pytest.mark.parametrize("longer_first", [True, False])
def test_growth_belongs_to_the_plan_that_outgrew(framework, longer_first):
    """Of two structures in turn both grow; the ordinals of one are other requests of the other."""
    train, evaluate = Loop(framework, LAYERS), Loop(framework, [n << 20 for n in range(1, 4)])
    loops = (train, evaluate) if longer_first else (evaluate, train)

    def one(loop, scale):
        loop.scale = scale
        with session.iteration():
            loop()
        loop.drop()  # what wraps would be in the other's way

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with open_session(framework) as session:
            for loop in loops:
                for scale in (2, 4, 3, 4, 2, 4, 3, 4, 2, 3):
                    one(loop, scale)
            for scale in (4, 3, *[9, 9, 8, 9] * 6):
                for loop in loops:
                    one(loop, scale)
            assert session.summary().plans == 2
            assert {len(planned.plan) for planned in session._lifecycle._plans.all} == {10, 19}
            assert [one.known_rate for one in session.history[-4:]] == [1] * 4
            # State that is born in the second structure's first iteration has settled in a slot.
            assert min(one.hit_rate for one in session.history[-4:]) >= 0.9
            # The second structure is recorded once; each grows once, or is recorded again because
            # its larger requests fit neither plan.
            assert session.summary().replans <= 4


def test_lengths_that_rise_step_by_step_are_not_planned_at_every_step(framework):
    loop = Loop(framework, LAYERS)
    with open_session(framework) as session:
        for scale in range(10, 70):
            loop.scale = scale
            run(loop, session, 1)
        assert session.summary().replans <= 15


def test_more_structures_than_plans_are_recorded_ever_more_rarely(framework):
    loops = [
        Loop(framework, [64 * number + 1000 * layer for layer in range(1, 8 + number)])
        for number in range(7)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with open_session(framework, max_plans=2) as session:
            for number in range(400):
                with session.iteration():
                    loops[number % 7]()
            assert session.summary().recorded < 100
            assert len(session.summary().notes) <= 20


def test_a_save_that_fails_does_not_end_the_training(framework, tmp_path, monkeypatch):
    def refuse(*_):
        raise FileError("the disk is full")

    monkeypatch.setattr("pgmo.packing.plan_file.write_plan", refuse)
    with open_session(framework, save=tmp_path) as session:
        with pytest.warns(UserWarning, match="could not be saved: the disk is full"):
            run(Loop(framework, LAYERS), session, 6)
        assert session.history[-1].hit_rate == 1


def test_a_directory_that_cannot_be_is_found_out_before_training(framework, tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(FileError, match="name another"), open_session(framework, save=place):
            pytest.fail("training must not begin")
    assert not framework.installed


def test_sums_go_on_when_the_history_is_cut(framework, monkeypatch):
    monkeypatch.setattr("pgmo.allocator.tally._HISTORY", 5)
    with open_session(framework) as session:
        run(Loop(framework, LAYERS), session, 12)
    assert len(session.history) == 5
    assert session.summary().iterations == 12
    assert session.summary().replayed == 8


def test_two_threads_cannot_open_a_session_at_once(framework):
    barrier = threading.Barrier(2)
    outcomes = []

    def open_one():
        barrier.wait()
        try:
            with open_session(framework) as session:
                outcomes.append("opened")
                barrier.wait(timeout=5)
                session.step()
        except SessionError:
            outcomes.append("refused")
            barrier.wait(timeout=5)

    threads = [threading.Thread(target=open_one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["opened", "refused"]


def test_uninstalling_that_fails_does_not_hide_the_programs_exception(framework, monkeypatch):
    def refuse():
        raise AdapterError("something lies on top")

    with pytest.warns(UserWarning, match="something lies on top"):
        with pytest.raises(ValueError, match="mine"), open_session(framework) as session:
            session.step()
            monkeypatch.setattr(framework, "uninstall", refuse)
            raise ValueError("mine")


def test_forked_child_neither_plans_nor_serves(framework):
    loop = Loop(framework, LAYERS)
    with open_session(framework) as session:
        run(loop, session, 2)
        child = os.fork()
        if child == 0:
            for _ in range(6):
                loop()
                session.step()
            os._exit(framework.engine.statistics()["hits"])
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        run(loop, session, 4)
        assert session.history[-1].hit_rate == 1


# --- misuse --------------------------------------------------------------------------------------


def test_nested_sessions_are_refused(framework):
    with open_session(framework) as session:
        with pytest.raises(SessionError, match="cannot be nested"), open_session(framework):
            pass
        run(Loop(framework, LAYERS), session, 6)  # the outer one is unharmed
        assert session.history[-1].hit_rate == 1


@pytest.mark.parametrize("call", ["step", "iteration", "pause"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.filterwarnings("ignore:a pgmo session ended without")
def test_calls_outside_of_the_session_are_refused(framework, call, when):
    session = open_session(framework)
    if when == "after":
        with session:
            pass
    with pytest.raises(SessionError, match=rf"session.{call}\(\) was called, but"):
        result = getattr(session, call)()
        if call != "step":
            with result:
                pass


def test_step_inside_of_iteration_is_refused(framework):
    with open_session(framework) as session, session.iteration():
        with pytest.raises(SessionError, match="use one of the two"):
            session.step()
        with pytest.raises(SessionError, match="inside another iteration"), session.iteration():
            pass


@pytest.mark.filterwarnings("ignore:a pgmo session ended without")
def test_iterations_inside_of_a_pause_are_refused(framework):
    with open_session(framework) as session, session.pause():
        with pytest.raises(SessionError, match=r"cannot end inside session\.pause"):
            session.step()
        with pytest.raises(SessionError, match="cannot begin"), session.iteration():
            pytest.fail("the body must not run")


@pytest.mark.filterwarnings("ignore:a pgmo session ended without")
def test_a_session_is_used_once(framework):
    session = open_session(framework)
    with session:
        pass
    with pytest.raises(SessionError, match="used before"), session:
        pass


def test_session_without_an_iteration_says_so(framework):
    with pytest.warns(UserWarning, match="without a single iteration"), open_session(framework):
        pass


def test_loop_that_allocates_nothing(framework):
    with open_session(framework) as session:
        with pytest.warns(UserWarning, match="allocate nothing"):
            for _ in range(6):
                session.step()
    assert session.plan is None


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("max_record_iterations", 2, "use 3 at least"),
        ("min_hit_rate", 1.5, "between 0 and 1"),
        ("patience", 0, "must be 1 at least"),
        ("device", "tpu", "not supported"),
        ("plan", 3, "neither a Plan nor the path"),
        ("solver", "nope", "is not one of auto, "),
        ("model_name", "../x", "cannot be part of a file's name"),
        ("patience", 1.5, "must be a whole number"),
        ("min_hit_rate", "a", "must be a number"),
    ],
)
def test_bad_options(framework, option, value, message):
    with pytest.raises(OptionError, match=message):
        open_session(framework, **{option: value})
