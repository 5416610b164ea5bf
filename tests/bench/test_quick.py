"""Quick runs of every benchmark that a CPU can run, whose figures are not representative."""

import re

import pytest

from tests.bench.scripts import BENCH, CPU, all_scripts, quick_result
from tests.integration import running

STUB = (
    "causes",
    "fakecuda_card",
    "fakecuda_memory",
    "fakecuda_ranks",
    "fakecuda_recompute",
    "fit",
    "fit_answers",
    "never_worse",
    "phases",
    "private_pools",
    "rules",
    "sharing",
    "verdict",
    "what_if",
)
"""Benchmarks that tests/fakecuda runs."""

LIBRARIES = ("recompute_zoo", "recompute_exact")
"""Benchmarks that need libraries beyond PyTorch, which `make bench` leaves out."""


def test_every_benchmark_is_run_by_a_test():
    assert all_scripts() == sorted((*CPU, *STUB, *LIBRARIES))
    fakecuda = (BENCH.parent / "tests/fakecuda/test_bench.py").read_text()
    assert [name for name in STUB if f'"{name}.py"' not in fakecuda] == []
    for path in BENCH.rglob("[!_]*.py"):
        if path.parent.name in ("bench", "gpu"):
            shared = ("add_common_options(", "_parser(", "workloads.scripts")
            assert any(one in path.read_text() for one in shared), path


def test_make_bench_runs_all_that_a_cpu_can():
    makefile = (BENCH.parent / "Makefile").read_text()
    assert sorted(re.search(r"^CPU_BENCHES = (.*)$", makefile, re.MULTILINE)[1].split()) == [*CPU]


def test_planning(tmp_path):
    pytest.importorskip("torch")
    fixed, varying = quick_result(tmp_path, "planning")["rows"]
    assert (fixed["lengths"], varying["lengths"]) == ("fixed", "any")
    for row in (fixed, varying):
        assert 0 < row["planning_seconds"] < row["cpu_seconds"]
        assert row["share"] == pytest.approx(row["planning_seconds"] / row["cpu_seconds"])
        ratio = row["cpu_seconds"] / row["plain_cpu_seconds"]
        assert row["cpu_over_plain"] == pytest.approx(ratio)
        assert row["from_slots"] < 1
    assert fixed["from_slots"] > 0
    table = running.run(
        tmp_path, BENCH / "planning.py", "--table", "-o", tmp_path / "planning.json"
    )
    assert f"{fixed['share']:.2%}" in table.stdout


def test_engine(tmp_path):
    result = quick_result(tmp_path, "engine")
    keys = ("what", "blocks", "bytes")
    pairs = {tuple(row[key] for key in keys): row["median_ns"] for row in result["pairs"]}
    ways = {"replay", "paged", "empty", "record"}
    assert {what for what, *_ in pairs} == ways
    assert all(nanoseconds > 0 for nanoseconds in pairs.values())
    claims = result["claims"]
    assert claims["replay_pair_ns"]["figure"] == pairs["replay", 100, 0]
    over = [pairs["paged", *key] / pairs["replay", *key] for what, *key in pairs if what == "paged"]
    assert claims["with_pages_over_without"]["figure"] == pytest.approx(max(over), abs=0.01)


@pytest.mark.slow  # tests/integration runs networks with and without pgmo, too
def test_cpu_training(tmp_path):
    pytest.importorskip("torch")
    rows = quick_result(tmp_path, "cpu_training")["rows"]
    assert [row["allocator"] for row in rows] == ["glibc", "pgmo", "pgmo_saved_plan"]
    for row in rows:
        assert row["identical"]
        assert row["step_seconds"] > 0
        assert row["rss"] >= row["rss_steady"] > 0
        assert row["time_against"].keys() == {one["allocator"] for one in rows if one != row}
    assert [row.get("hit_rate", 0) > 0.9 for row in rows] == [False, True, True]


def test_packing(tmp_path):
    pytest.importorskip("torch")
    options = ("--contestants", "pgmo", "Sekiyama 2018")
    parts = quick_result(tmp_path, "packing", *options)["parts"]
    assert list(parts) == ["instances", "networks"]
    for part in parts:
        ours = next(row for row in parts[part]["rows"] if row["contestant"] == "pgmo")
        assert ours["arena"] >= ours["max_load"] > 0


@pytest.mark.slow  # tests/integration runs such programs, too
def test_real_programs(tmp_path):
    pytest.importorskip("torch")
    result = quick_result(tmp_path, "real_programs", "--program", "nanogpt")
    (row,) = result["rows"]
    assert row["identical"]
    assert row["iterations"] == row["steps"] == 12
    assert row["from_slots"] > 0.5
    assert row["above_plain"] == row["peak"] - row["plain_peak"]
    assert row["cpu_seconds"] > 0
    assert row["cpu_over_plain"] > 0
    assert result["versions"].keys() >= {"torch"}
    shown = running.run(
        tmp_path, BENCH / "real_programs.py", "--table", "-o", tmp_path / "real_programs.json"
    )
    assert f"| {row['from_slots']:.1%} |" in shown.stdout


def test_a_program_whose_packages_are_missing_is_left_out(tmp_path, monkeypatch):
    from programs import PROGRAMS, Program, script

    real_programs = pytest.importorskip("real_programs")
    assert all(script(name).exists() for name in PROGRAMS)
    monkeypatch.setitem(PROGRAMS, "nanogpt", Program("GPT", ("no_such_package",)))
    row = real_programs.measure("nanogpt", 1, 1, small=True)
    assert row["skipped"] == "no_such_package not installed"


@pytest.mark.slow
def test_recomputation_keeps_to_its_budgets_and_to_the_bits(tmp_path):
    pytest.importorskip("torch")
    options = ("--networks", "unet", "--repetitions", "1")
    result = quick_result(tmp_path, "recompute", *options, shown="| U-Net | pgmo | 0.")
    (verdict,) = result["verdicts"]
    assert verdict["monotone"]
    assert verdict["same_bits"]
    assert verdict["most_above_budget"] <= 0.02
    ours = [row for row in result["rows"] if row["way"] == "pgmo" and "peak" in row]
    assert len(ours) >= 3
    assert all(row["peak"] < row["default_peak"] for row in ours)
    checkpointed = next(row for row in result["rows"] if row["way"] == "checkpoint")
    assert checkpointed["same"]["gradients"]
    assert not checkpointed["same"]["buffers"]  # checkpointing updates the statistics twice


def test_a_small_step_is_solved_and_proved_by_cp_sat(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("ortools")
    result = quick_result(
        tmp_path, "recompute_exact", "--seconds", "60", shown="| MLP, widening | 9 + 19 | 0."
    )
    (row,) = result["rows"]
    assert row["least"]["proved"]
    assert row["least"]["optimum"] <= row["least"]["found"] <= 1.02 * row["least"]["optimum"]
    assert row["least"]["optimum"] < row["least"]["once"] < row["default_peak"]
    for cell in row["cells"]:
        assert cell["proved"]
        # CP-SAT rounds costs to millionths.
        assert cell["optimum"] - 1e-4 <= cell["overhead"] <= cell["optimum"] + 0.02


@pytest.mark.slow
def test_a_model_of_transformers_has_the_same_bits_under_all_changes(tmp_path):
    pytest.importorskip("transformers")
    shown = "| GPT-2 | transformers | yes |"
    (row,) = quick_result(tmp_path, "recompute_zoo", "--models", "GPT-2", shown=shown)["rows"]
    assert len(row["same"]) == 5
    ways = {(way["way"], way["setting"]): way for way in row["ways"]}
    assert ways["pgmo", 0.5]["peak_share"] <= 0.51
    assert ways["pgmo", "min"]["peak_share"] <= ways["checkpoint", "each block"]["peak_share"]
