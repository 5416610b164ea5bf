import threading
import time

import numpy as np
import pytest

from pgmo.errors import OptionError, PgmoError, ProblemError
from pgmo.packing.plan import UNPLANNED
from pgmo.packing.planner import SOLVERS, plan, plan_profile
from pgmo.packing.planning_options import PlanningOptions
from pgmo.packing.problem import Problem
from pgmo.packing.solving import cp_sat, portfolio
from pgmo.packing.solving.packer import PACKERS, attempt, pack
from pgmo.packing.validator import validate
from pgmo.profiler.profile import NEVER, Profile
from tests.conformance.traces import scattered, training
from tests.unit.packing.results import check_packing, check_trace, hard_problem

needs_or_tools = pytest.mark.skipif(not cp_sat.is_installed(), reason="needs pgmo[exact]")
each_solver = pytest.mark.parametrize(
    "solver",
    [pytest.param(name, marks=needs_or_tools if name == "cp-sat" else ()) for name in SOLVERS],
)


def packers_that_ran(monkeypatch, problem: Problem, **options) -> list[str]:
    ran = []
    monkeypatch.setattr(
        portfolio, "attempt", lambda *given: ran.append(given[1]) or attempt(*given)
    )
    plan(problem, **options)
    return ran


def test_fast_is_the_best_of_the_packers():
    problem = hard_problem()
    packing = plan(problem, effort="fast")
    arenas = {name: int((pack(problem, name) + problem.size).max()) for name in PACKERS}
    assert packing.arena == min(arenas.values()) == arenas[packing.solver]
    assert (packing.bound, packing.optimal) == (packing.max_load, False)
    check_packing(packing)


def test_packers_stop_at_the_lower_bound(monkeypatch):
    easy = Problem([8, 8], [0, 1], [1, 2])
    assert packers_that_ran(monkeypatch, easy) == [PACKERS[0]]
    assert packers_that_ran(monkeypatch, hard_problem(), effort="fast") == list(PACKERS)


def test_of_very_many_blocks_only_the_quickest_packers_are_tried(monkeypatch):
    monkeypatch.setattr(portfolio, "_MANY", 100)
    for effort in ("fast", "balanced"):
        options = {"effort": effort, "time_limit": 0.2}
        assert packers_that_ran(monkeypatch, hard_problem(101), **options) == list(PACKERS[:2])
    assert packers_that_ran(monkeypatch, hard_problem(100), effort="fast") == list(PACKERS)


def test_no_time_is_enough_for_one_packer(monkeypatch):
    assert packers_that_ran(monkeypatch, hard_problem(), time_limit=0) == [PACKERS[0]]


def test_one_packer_runs_alone(monkeypatch):
    ran = packers_that_ran(monkeypatch, hard_problem(), solver="best-fit-size")
    assert ran == ["best-fit-size"]


@each_solver
def test_every_solver_gives_a_valid_plan(solver):
    profile = training(800)
    result = plan(profile, solver=solver, time_limit=0.5)
    validate(result)
    check_trace(result)
    assert set(result.solver.split("+")) <= ({solver} if solver in PACKERS else set(SOLVERS))
    assert result.max_load == profile.max_load(64) <= result.arena
    assert result.fingerprint == profile.fingerprint
    assert result.seconds > 0


def test_several_streams_share_the_time_and_the_trace():
    one = scattered(60, 1)
    two = Profile.from_columns(
        size=one.size, start=one.start, end=one.end, ticks=one.ticks, stream=np.arange(60) % 2
    )
    seen = []
    result = plan(two, time_limit=0.5, observer=seen.append)
    validate(result)
    check_trace(result)
    assert tuple(seen) == result.trace


def test_an_observer_sees_each_event_as_it_comes():
    seen = []
    packing = plan(hard_problem(60), time_limit=0.5, observer=seen.append)
    assert tuple(seen) == packing.trace
    assert seen[0].solver in PACKERS


@pytest.mark.parametrize("seed", range(8))
def test_training_packs_to_within_a_per_cent_of_the_bound(seed):
    problem, _ = Problem.from_profile(training(2000, seed), 64)
    packing = plan(problem, effort="fast")
    assert packing.arena <= 1.01 * packing.bound


def test_rows_of_every_kind():
    profile = Profile.from_columns(
        size=[10, 20, 30, 40, 50, 60],
        start=[0, 1, 2, 3, 4, 0],
        end=[2, NEVER, 6, 9, 5, 4],
        ticks=5,
        varying=[False, False, False, False, True, False],
        shared=[False, False, False, False, False, True],
    )
    result = plan(profile, alignment=16)
    validate(result)
    assert (result.offset == UNPLANNED).tolist() == [False, True, False, False, False, True]
    assert (result.alternate == UNPLANNED).tolist() == [True, True, True, False, True, True]
    assert result.shared.tolist() == profile.shared.tolist()
    assert result.varying.tolist() == profile.varying.tolist()
    assert result.arena == 48 + 48 + 32 + 64  # both slots of row 3, and rows 2 and 4 at tick 4
    assert result.max_load == profile.max_load(16)
    assert result.optimal  # above the max load, but no smaller arena has two slots for row 3
    assert result.gap == result.arena / result.max_load - 1 > 0


def test_streams_share_no_bytes():
    profile = Profile.from_columns(
        size=[64, 64, 128, 64], start=[0, 1, 2, 3], end=[1, 2, 3, 4], ticks=4, stream=[7, 9, 9, 7]
    )
    result = plan(profile)
    validate(result)
    assert result.offset.tolist() == [0, 64, 64, 0]
    assert (result.arena, result.max_load, result.optimal) == (192, 128, True)


@pytest.mark.parametrize("end", [[], [NEVER]])
def test_nothing_to_place(end):
    profile = Profile.from_columns(
        size=[8] * len(end), start=[0] * len(end), end=end, ticks=len(end)
    )
    result = plan(profile)
    validate(result)
    assert (result.arena, result.gap, result.optimal) == (0, 0.0, True)
    assert result.offset.tolist() == [UNPLANNED] * len(end)


@pytest.mark.parametrize("blocks", [0, 10])
def test_unknown_solvers_are_refused_with_the_names_of_the_known(blocks):
    profile = Profile.from_columns(
        size=np.ones(blocks, int), start=range(blocks), end=np.arange(blocks) + 1, ticks=blocks
    )
    with pytest.raises(OptionError, match="'simplex'; choose one of auto, best-fit, ") as caught:
        plan(profile, solver="simplex")
    assert isinstance(caught.value, PgmoError)
    assert all(name in str(caught.value) for name in SOLVERS)
    with pytest.raises(OptionError, match="'first-fit-size'; it was removed; choose one of auto"):
        plan(profile, solver="first-fit-size")


@pytest.mark.parametrize("alignment", [0, -64, 1.5])
def test_bad_alignments_are_refused(alignment):
    profile = Profile.from_columns(size=[8], start=[0], end=[1], ticks=1)
    with pytest.raises(ProblemError, match="alignment"):
        plan(profile, alignment=alignment)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"effort": "much"}, "effort='much' is not one of fast, balanced, best"),
        ({"time_limit": -1}, "time_limit=-1 is not possible; give 0 seconds or more"),
        ({"time_limit": float("nan")}, "time_limit=nan is not possible"),
        ({"time_limit": "5"}, "time_limit='5' is not a number"),
        ({"threads": 0}, "threads=0 must be a whole number from 1 to 4096"),
        ({"threads": 1.5}, "threads=1.5 must be a whole number"),
        ({"seed": -1}, "seed=-1 must be a whole number from 0"),
        ({"seed": True}, "seed=True must be a whole number"),
        ({"alignment": 64}, "alignment=64 differs from the problem"),
    ],
)
def test_options_that_cannot_be_used(options, message):
    with pytest.raises(OptionError, match=message):
        plan(Problem([8], [0], [1]), **options)


def test_other_threads_run_while_packing():
    problem, _ = Problem.from_profile(scattered(200_000), 1)
    ticks = []
    done = threading.Event()

    def work() -> None:
        pack(problem, "best-fit-size")
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.is_set():
        ticks.append(time.perf_counter())
        time.sleep(0.001)
    thread.join()
    assert len(ticks) > 3  # if planning held the GIL, there would be a tick at each end


def test_every_stream_has_a_packing_before_any_has_a_second(monkeypatch):
    ran = []

    def counted(problem, name, time_limit):
        ran.append((len(problem), name))
        return attempt(problem, name, time_limit)

    monkeypatch.setattr(portfolio, "attempt", counted)
    streams = [hard_problem(30), hard_problem(40)]
    portfolio.Portfolio(PlanningOptions("auto", 5, "fast", threads=1)).solve(
        streams, time.perf_counter()
    )
    assert ran[:4] == [(30, PACKERS[0]), (40, PACKERS[0]), (30, PACKERS[1]), (40, PACKERS[1])]


@pytest.mark.parametrize(
    ("effort", "blocks", "tries"),
    [("fast", 1000, 1), ("fast", 999, len(PACKERS)), ("balanced", 1000, len(PACKERS))],
)
def test_fast_effort_runs_one_packer_for_many_blocks_near_the_bound(
    monkeypatch, effort, blocks, tries
):
    small = np.full(blocks, 8)
    small[0] = 1 << 20
    offset = np.concatenate([[0], (1 << 20) + 8 * np.arange(blocks - 1)])
    problem = Problem(small, np.arange(blocks), np.arange(blocks) + 2)
    ran = []

    def stacked(problem, name, time_limit):
        ran.append(name)
        return np.where(np.arange(blocks) > 2, 0, offset), False

    monkeypatch.setattr(portfolio, "attempt", stacked)
    monkeypatch.setattr(portfolio, "improve", lambda *_, **__: False)
    portfolio.Portfolio(PlanningOptions("auto", 5, effort, threads=1)).solve(
        [problem], time.perf_counter()
    )
    assert len(ran) == tries


def test_streams_that_are_optimal_take_no_time_from_the_others(monkeypatch):
    limits = []

    def counted(best, solver, *, time_limit, **_):
        limits.append(time_limit)
        return False

    monkeypatch.setattr(portfolio, "improve", counted)
    streams = [hard_problem(30), *(Problem([8], [0], [1]) for _ in range(9))]
    portfolio.Portfolio(PlanningOptions("search", 50, "balanced", threads=1)).solve(
        streams, time.perf_counter()
    )
    assert len(limits) == 1
    assert limits[0] > 25


def test_numbers_of_numpy_are_numbers():
    problem = Problem([8, 8], [0, 1], [2, 3], np.int64(3), np.int32(4))
    options = {"time_limit": np.float32(1), "threads": np.int64(1), "seed": np.uint8(3)}
    assert plan(problem, **options).arena == 16
    with pytest.raises(ProblemError, match="the period is True"):
        Problem([8], [0], [1], True)
    with pytest.raises(OptionError, match="neither a Profile nor a Problem"):
        plan("resnet.pgmoprof")


def test_the_first_iteration_has_a_plan_of_its_own():
    """Persistent blocks have no slots. Their bytes are added to the budget."""
    profile = Profile.from_columns(size=[128], start=[0], end=[1], ticks=1)
    opening = Profile.from_columns(
        size=[64, 128], start=[0, 1], end=[NEVER, 2], ticks=2, circular=False
    )
    assert plan(profile).opening is None
    made = plan(profile, opening=opening, budget=128).opening
    assert (made.resident, made.offset.tolist()) == (128, [UNPLANNED, 0])
    with pytest.raises(OptionError, match="opening=7 is not a Profile"):
        plan(profile, opening=7)
    with pytest.raises(OptionError, match="opening= is only for a Profile"):
        plan(Problem([8], [0], [1]), opening=opening)


def test_blocks_of_some_size_are_packed_by_themselves_above_all_others():
    profile = Profile.from_columns(
        size=[64, 6400, 64, 6400, 128], start=[0, 1, 2, 3, 4], end=[2, 2, 4, 4, 5], ticks=5
    )
    made = plan_profile(profile, PlanningOptions(alignment=64, sparse_from=6000))
    large = made.size >= 6000
    assert made.offset[large].tolist() == [128, 128]  # no overlap in time
    assert (made.offset + made.size)[~large].max() <= 128
    assert made.arena == 128 + 6400
    # A plan with all blocks together is smaller, as the last line shows.
    assert (made.optimal, made.bound) == (False, 6400 + 64)
    validate(made)
    assert plan_profile(profile, PlanningOptions(alignment=64)).arena == 6400 + 64
