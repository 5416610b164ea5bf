"""Messages word by word: what happened, the numbers, what to do next.

A message is part of the interface; whoever changes one does so on purpose, here as well.
"""

import numpy as np
import pytest

import pgmo
from pgmo.allocator.managed.context import make_managed
from pgmo.allocator.plans.plan_set import check_replayable
from pgmo.allocator.session.options import Options
from pgmo.allocator.session.statistics import IterationStatistics, Phase
from pgmo.allocator.session.verdict.summary import Summary
from pgmo.packing.csv_file import read_csv
from pgmo.packing.planner import SOLVERS
from pgmo.packing.solving import cp_sat
from pgmo.units import parse_bytes


def profile(**changes):
    columns = {"size": [64, 128], "start": [0, 1], "end": [2, 2], "ticks": 2, **changes}
    return pgmo.Profile.from_columns(**columns)


def overlapping_plan():
    plan = pgmo.plan(profile())
    fields = {name: getattr(plan, name) for name in plan.__dataclass_fields__}
    return pgmo.Plan(**{**fields, "offset": np.zeros(2, np.int64)})


CASES = {
    "size": (
        lambda: parse_bytes("12 parsecs"),
        "cannot read '12 parsecs' as a size; write for example '24 GiB' or '512 MiB'",
    ),
    "device": (
        lambda: Options(device="mps"),
        "device='mps' is not supported; use 'cpu', 'cuda' or 'cuda:0'",
    ),
    "unified memory of the CPU": (
        lambda: make_managed("cpu"),
        "unified memory is for CUDA devices; device='cpu' has no use for it",
    ),
    "an option that is gone": (
        lambda: pgmo.optimize(patience=3),
        "there is no option 'patience'; it was removed: pgmo decides when to record again; "
        "pgmo.optimize() has save, device, model_name, tags, record_only, budget, pages, limit, "
        "plan, framework",
    ),
    "a budget that cannot be met": (
        lambda: pgmo.plan(profile(end=[2, -1]), alignment=64, budget=100),
        "the budget of 100 B cannot be met: blocks that are never freed, or that several streams "
        "share, have no slot and need 128 B by themselves; the least budget is 128 bytes",
    ),
    "step before the session": (
        lambda: pgmo.optimize().step(),
        "session.step() was called, but the session has not been opened; call it inside "
        "`with pgmo.optimize() as session:`",
    ),
    "plan of an imported profile": (
        lambda: check_replayable(pgmo.plan(profile(circular=False)), alignment=64),
        "the plan cannot be replayed: it was not made from a recorded iteration, with one row per "
        "request; record one with pgmo.optimize()",
    ),
    "plan with another alignment": (
        lambda: check_replayable(pgmo.plan(profile(), alignment=32), alignment=64),
        "the plan is aligned to 32 bytes, but this framework needs 64; plan again with "
        "alignment=64",
    ),
    "effort": (
        lambda: pgmo.plan(profile(), effort="extreme"),
        "effort='extreme' is not one of fast, balanced, best",
    ),
    "solver": (
        lambda: pgmo.plan(profile(), solver="simplex"),
        f"no solver is called 'simplex'; choose one of {', '.join(SOLVERS)}",
    ),
    "time limit": (
        lambda: pgmo.plan(profile(), time_limit=-2),
        "time_limit=-2 is not possible; give 0 seconds or more",
    ),
    "missing file": (
        lambda: pgmo.Profile.load("no/such.pgmoprof"),
        "no/such.pgmoprof: cannot be read (No such file or directory); check the path",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_message(case):
    provoke, expected = CASES[case]
    with pytest.raises(pgmo.PgmoError) as caught:
        provoke()
    assert str(caught.value) == expected


def test_or_tools_that_are_missing(monkeypatch):
    monkeypatch.setattr(cp_sat, "is_installed", lambda: False)
    with pytest.raises(pgmo.errors.OptionError) as caught:
        pgmo.plan(profile(), solver="cp-sat")
    assert str(caught.value) == (
        "solver='cp-sat' needs OR-Tools, which is not installed; run: pip install ortools, "
        "or leave the choice to solver='auto'"
    )


def test_a_bad_row_of_a_csv_file(tmp_path):
    path = tmp_path / "blocks.csv"
    path.write_text("id,lower,upper,size\n0,0,4,64\n1,3,9,many\n")
    with pytest.raises(pgmo.errors.FileError) as caught:
        read_csv(path)
    assert str(caught.value) == (
        f"{path}, line 3: size is 'many', not a whole number; correct this line"
    )


def test_overlapping_plan_names_both_blocks_and_their_places():
    with pytest.raises(pgmo.errors.PlanError) as caught:
        check_replayable(overlapping_plan(), alignment=64)
    message = str(caught.value)
    assert "block 0" in message
    assert "block 1" in message
    assert "128" in message


def test_summary_reads_like_this():
    summary = Summary(
        iterations=20,
        recorded=4,
        replayed=16,
        requests=1600,
        hits=1598,
        bytes_requested=16 << 30,
        bytes_hit=(16 << 30) - 4096,
        misses={"persistent": 0, "unknown": 2, "too_large": 0, "occupied": 0, "late": 0},
        blocks=100,
        arena=101 << 20,
        max_load=100 << 20,
        solver="best-fit",
        plans=1,
        peak_slot_bytes=100 << 20,
        peak_fallback_bytes=4096,
        notes=("something to know",),
    )
    assert str(summary) == (
        "pgmo: 20 iterations, 4 recorded, 16 replayed\n"
        "  arena      101 MiB for 100 blocks, 1.00% above the max load of 100 MiB "
        "(best-fit; one plan)\n"
        "  replay     99.88% of 1600 requests and 100.000% of 16.0 GiB from slots\n"
        "  misses     2 not in the plan; mark whole iterations; put evaluation and logging into "
        "`session.pause()`\n"
        "  peak       100 MiB in slots, 4.00 KiB outside the plan\n"
        "  note       something to know"
    )


def test_rates_of_an_iteration_without_requests():
    empty = IterationStatistics(Phase.REPLAY, 0, 0, 0, 0)
    assert (empty.hit_rate, empty.hit_bytes_rate, empty.known_rate) == (1.0, 1.0, 1.0)
