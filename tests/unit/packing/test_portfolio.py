import threading
import time

import numpy as np
import pytest

from bench._traces import FAMILIES
from pgmo.errors import OptionError, PgmoError, ProblemError
from pgmo.packing.packer import PACKERS, pack
from pgmo.packing.plan import UNPLANNED
from pgmo.packing.portfolio import SOLVERS, plan, search
from pgmo.packing.problem import Problem
from pgmo.packing.validator import validate
from pgmo.profiler.profile import NEVER, Profile


def profile_of(family: str, blocks: int, seed: int = 0) -> Profile:
    trace = FAMILIES[family](blocks, seed)
    return Profile.from_columns(
        size=trace.size, start=trace.start, end=trace.end, ticks=trace.ticks
    )


def test_keeps_the_best_attempt():
    problem, _ = Problem.from_profile(profile_of("scattered", 400, 1), 1)
    packing = search(problem, early_stop=False)
    assert [attempt.packer for attempt in packing.attempts] == list(PACKERS)
    assert packing.best.arena == min(attempt.arena for attempt in packing.attempts)
    assert int((packing.offset + problem.size).max()) == packing.best.arena >= packing.bound


def test_stops_at_the_lower_bound():
    problem = Problem([8, 8], [0, 1], [1, 2])
    assert [attempt.packer for attempt in search(problem).attempts] == ["best-fit"]
    assert len(search(problem, early_stop=False).attempts) == len(PACKERS)


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_gives_a_valid_plan(solver):
    profile = profile_of("convolutional", 800)
    result = plan(profile, solver=solver)
    validate(result)
    assert result.solver in PACKERS
    assert result.solver == solver or solver == "auto"
    assert result.max_load == profile.max_load(64) <= result.arena
    assert result.fingerprint == profile.fingerprint
    assert result.seconds > 0


@pytest.mark.parametrize("family", ["convolutional", "u_net", "transformer", "recurrent"])
@pytest.mark.parametrize("seed", range(4))
def test_training_shaped_traces_pack_to_within_a_per_cent_of_the_bound(family, seed):
    problem, _ = Problem.from_profile(profile_of(family, 2000, seed), 64)
    packing = search(problem)
    assert packing.best.arena <= 1.01 * packing.bound


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
    assert result.optimal  # not at the max load, but nothing smaller has two slots for row 3
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


@pytest.mark.parametrize("alignment", [0, -64, 1.5])
def test_bad_alignments_are_refused(alignment):
    profile = Profile.from_columns(size=[8], start=[0], end=[1], ticks=1)
    with pytest.raises(ProblemError, match="alignment"):
        plan(profile, alignment=alignment)


def test_other_threads_run_while_packing():
    problem, _ = Problem.from_profile(profile_of("scattered", 30_000), 1)
    ticks = []
    done = threading.Event()

    def work() -> None:
        pack(problem, "first-fit-size")
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.is_set():
        ticks.append(time.perf_counter())
        time.sleep(0.001)
    thread.join()
    assert len(ticks) > 3  # with the GIL held there would be one tick at either end


def test_repr_says_what_matters():
    text = repr(plan(profile_of("transformer", 300)))
    assert text.startswith("Plan(")
    assert "blocks in" in text
    assert "max load" in text
    assert "gap 0." in text
    assert "by best-fit" in text
