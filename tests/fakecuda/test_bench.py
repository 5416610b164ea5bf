"""Benchmarks on the stub, with tiny networks."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.fakecuda.programs import ROOT

CONTENDERS = ["default", "expandable", "pages", "pgmo", "pgmo_run"]


def assert_costs(row):
    """Check that a row has its costs. Pages count them without a session, too."""
    contender = row.get("contender") or row["allocator"]
    assert row["cpu_seconds"] > 0
    if not row.get("lag"):
        assert row["cpu_over_default"] == 1 or contender != "default"
        assert row["cpu_over_default"] > 0
    assert row["driver_calls"] is not None
    for name in ("requests_that_map", "waits"):
        assert (row.get(name) is not None) == (contender in CONTENDERS[2:])


WITHOUT_STUB = ("fit.py", "fit_answers.py", "what_if.py")
"""Benchmarks without `--stub`: pgmo itself rehearses their scripts."""


def quick(script, folder, *arguments):
    """Run a benchmark with `--quick`, which ends with printing its table; return its result."""
    results = folder / "results.json"
    if script not in WITHOUT_STUB:
        arguments = ("--stub", Path(os.environ["PGMO_FAKECUDA"]).parent, *arguments)
    options = ("--quick", "-o", results, *arguments)
    command = [sys.executable, str(ROOT / "bench" / script), *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "| --- |" in done.stdout
    found = json.loads(results.read_text())
    assert found["quick"]
    return found


@pytest.mark.slow
def test_the_benchmark_measures_pytorchs_own_allocators(tmp_path):
    allocators = [part for one in CONTENDERS[:3] for part in ("--allocator", one)]
    found = quick("fakecuda_memory.py", tmp_path, *allocators)
    assert [row["allocator"] for row in found["rows"]] == CONTENDERS[:3]
    for row in found["rows"]:
        assert_costs(row)
        assert not row["out_of_memory"]
        assert row["trained"] == row["iterations"]
        assert row["live"] <= row["reserved"]
        assert row["efficiency"] == row["live"] / row["reserved"]
    batches = {row["allocator"]: row["batch"] for row in found["largest_batch"]}
    assert 0 < batches["default"] <= batches["bound"]
    assert 0 < batches["expandable"] <= batches["bound"]


@pytest.mark.slow
def test_rules_that_are_switched_off(tmp_path):
    rows = quick("rules.py", tmp_path)["rows"]
    rules = ["everything on", "stale", "look_ahead", "price"]
    assert [row["rule"] for row in rows] == rules * 2
    assert all(row["over_expandable"] > 0 for row in rows)
    assert rows[0]["over_usual"] == 1


@pytest.mark.slow
def test_the_largest_batch_by_recomputation(tmp_path):
    found = quick("fakecuda_recompute.py", tmp_path)
    plain, ours = found["rows"]
    assert [plain["name"], ours["name"]] == ["plain", "pgmo"]
    for row in (plain, ours):
        assert row["largest_batch"] > 0
        assert row["least_that_fails"] is None or row["least_that_fails"] > row["largest_batch"]
    assert ours["largest_batch"] >= plain["largest_batch"]


@pytest.mark.slow
def test_the_largest_batch_by_one_call(tmp_path):
    checkpointed, ours, offloaded, asleep = quick("fakecuda_card.py", tmp_path)["rows"]
    assert checkpointed["least_that_fails"] == checkpointed["largest_batch"] + 1
    assert ours["trained_steps"] > 0
    assert ours["peak"] <= ours["left"]
    assert ours["measured"] <= ours["left"]
    assert offloaded["measured"] <= offloaded["left"]
    assert offloaded["host_bytes"] > 0
    assert asleep["measured"] <= asleep["left"]
    assert asleep["largest_batch"] >= offloaded["largest_batch"]


def test_loops_under_every_allocator(tmp_path):
    rows = quick("never_worse.py", tmp_path)["rows"]
    assert [row["contender"] for row in rows] == CONTENDERS
    for row in rows:
        assert_costs(row)
        assert row["trained"] == row["iterations"]
        assert row["efficiency"] == row["live"] / row["peak"] <= 1
        assert ("from_slots" in row) == row["contender"].startswith("pgmo")
        # PyTorch's two allocators get equal requests.
        if row["contender"] in CONTENDERS[:2]:
            assert row["requested"] == row["live"]
    assert any(row["driver_calls_before"] for row in rows if row["contender"] == "pages")


def test_verdicts_are_held_against_real_runs(tmp_path):
    rows = quick("verdict.py", tmp_path, "--case", "nanogpt")["rows"]
    assert [row["right"] for row in rows] == [True]
    assert rows[0]["verdict"]["wrong"] == []


@pytest.mark.slow
def test_causes_come_first_and_healthy_programs_get_none(tmp_path):
    faulty, healthy = sorted(quick("causes.py", tmp_path)["rows"], key=lambda row: not row["cause"])
    assert faulty["right"]
    assert healthy["right"]
    assert abs(faulty["off"]) < 0.1


@pytest.mark.slow
def test_short_runs_under_every_allocator(tmp_path):
    rows = quick("never_worse.py", tmp_path, "--short", "--loop", "growing_images")["rows"]
    assert [row["contender"] for row in rows] == CONTENDERS
    assert all(row["trained"] == row["iterations"] == 3 for row in rows)


def test_whole_programs_under_every_allocator(tmp_path):
    rows = quick("real_programs.py", tmp_path, "--on-stub", "--program", "nanogpt")["rows"]
    assert [row["contender"] for row in rows] == [*CONTENDERS[:3], "pgmo_run"]
    for row in rows:
        assert_costs(row)
        assert row["optimizer_steps"] == 12
        assert row["efficiency"] == row["live"] / row["peak"] <= 1
    ours = rows[-1]
    assert ours["iterations"] == ours["steps"] == 12
    assert ours["from_slots"] > 0.2  # the plan waits while pages alone move no page


@pytest.mark.slow
def test_networks_of_2018(tmp_path):
    found = quick("fakecuda_memory.py", tmp_path, "--sekiyama")
    rows = found["rows"]
    networks = ("alexnet", "googlenet")
    cases = [(name, train) for name in networks for train in (True, False)]
    assert [(row["network"], row["train"], row["allocator"]) for row in rows] == [
        (f"sekiyama.{name}", train, one) for name, train in cases for one in CONTENDERS
    ]
    for row in rows:
        assert_costs(row)
        assert row["trained"] == row["iterations"]
        assert row["live"] <= row["reserved"]
    batches = {row["allocator"]: row["batch"] for row in found["largest_batch"]}
    assert all(0 < batches[name] <= batches["bound"] for name in CONTENDERS)


@pytest.mark.slow
def test_ranks_share_the_pages_of_their_streams(tmp_path):
    found = quick("fakecuda_ranks.py", tmp_path, "--program", "fsdp2")
    for row in found["rows"]:
        assert_costs(row)
        assert row["trained"] == row["iterations"]
        assert row["steady_live"] <= row["steady_peak"]
        if row["contender"] in CONTENDERS[2:]:
            assert not row["behind"]
            assert row["hand_overs"] > 0
            assert row["lag"] == (row["waits"] > 0)
        if row["contender"].startswith("pgmo"):
            assert row["steady_live"] <= row["bound"] <= row["steady_peak"]
    further = quick("fakecuda_ranks.py", tmp_path, "--program", "pipeline", "--keep")
    kept = [row for row in further["rows"] if row["program"] == "fsdp2"]
    assert kept == found["rows"]
    assert {row["program"] for row in further["rows"]} == {"fsdp2", "pipeline"}


@pytest.mark.slow
def test_jobs_that_share_a_card(tmp_path):
    found = quick("sharing.py", tmp_path)
    rows = {(row["program"], row["contender"]): row for row in found["rows"]}
    assert len(rows) == 3 * 3
    for row in rows.values():
        assert "failed" not in row
        assert not row["out_of_memory"]
    for program in ("turns", "threads"):
        assert rows[program, "pgmo"]["over"] <= 1.1  # pages are much of a tiny network
    apart = rows["processes", "pgmo"]
    assert apart["over"] <= 1.1
    assert apart["wrong"] == []
    assert apart["turns"] == 2 * apart["iterations"]
    assert not apart["fits_without"]


@pytest.mark.slow
def test_phases_of_one_card(tmp_path):
    names = ["grpo", "pool", *(["trainer"] if find_spec("trl") else []), "processes"]
    programs = [part for name in names for part in ("--program", name)]
    found = quick("phases.py", tmp_path, *programs)
    rows = {(row["program"], row["contender"]): row for row in found["rows"]}
    assert len(rows) == len(names) * 5
    for row in rows.values():
        assert "failed" not in row
        assert not row["out_of_memory"]
    for program in ("grpo", "pool"):
        ours, plain = rows[program, "pgmo"], rows[program, "default"]
        assert all(ours["peaks"][name] <= peak for name, peak in plain["peaks"].items())
        assert ours["iterations"] == ours["rounds"] * 4  # rollout, scoring, two steps
        assert ours["host"] > 0
    for contender in ("expandable", "pages", "pgmo"):  # weights by CUDA IPC
        row = rows["processes", contender]
        assert (row["more_files"], row["more_idle"]) == (0, 0)


@pytest.mark.slow
def test_programs_with_graphs_and_pools(tmp_path):
    programs = [part for one in ("layers", "convert") for part in ("--program", one)]
    found = quick("private_pools.py", tmp_path, *programs)
    rows = {(row["program"], row["contender"]): row["peak"] for row in found["rows"]}
    assert len(rows) == 8 + 5
    assert rows["layers", "need"] <= rows["layers", "default"]
    assert rows["convert", "need"] <= rows["convert", "pgmo_run"]
    assert rows["layers", "pgmo_run_shared"] < rows["layers", "default"]
    assert rows["convert", "pgmo_run"] < rows["convert", "default"]


@pytest.mark.slow
def test_the_largest_batch_before_anything_runs(tmp_path):
    (row,) = quick("fit.py", tmp_path)["rows"]
    assert row["rehearsals"] <= 4
    for found in row["ways"].values():
        assert found["fits"]
        assert 0 < found["largest"] <= found["by_trial"]
    assert row["ways"]["pgmo"]["largest"] == row["ways"]["pgmo"]["by_trial"]


@pytest.mark.slow
def test_answers_are_held_against_whole_runs(tmp_path):
    (row,) = quick("fit_answers.py", tmp_path)["rows"]
    assert [one["says"] for one in row["cards"]] == [one["fits"] for one in row["cards"]]
    assert [one["fits"] for one in row["cards"]] == [True, False]


@pytest.mark.slow
def test_predicted_changes_take_nearly_as_much_as_real_ones(tmp_path):
    rows = quick("what_if.py", tmp_path)["rows"]
    computed, rehearsed = sorted(rows, key=lambda row: row["source"])
    assert (computed["source"], rehearsed["source"]) == ("computed", "rehearsed")
    for row in (computed, rehearsed):
        assert abs(row["error"]) < 0.03, row
