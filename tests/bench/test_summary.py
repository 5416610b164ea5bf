"""Tests that the page of results is up to date."""

import importlib.util
import sys

import pytest

from tests.bench.scripts import BENCH


@pytest.fixture(scope="module")
def summary():
    spec = importlib.util.spec_from_file_location("summary", BENCH / "support/summary.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["summary"] = module  # dataclasses look up their module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["summary"]


def test_the_page_is_what_the_results_say(summary):
    assert summary.PAGE.read_text(encoding="utf-8") == summary.page()


def test_runs_of_one_program_stand_beside_each_other(summary):
    rows = [
        {"loop": "gan", "seed": 1, "contender": name, "peak": peak}
        for name, peak in (("default", 200), ("expandable", 100), ("pgmo", 150))
    ]
    (run,) = summary.runs({"rows": [*rows, {"loop": "gan", "seed": 2, "peak": 9} | rows[0]]})
    assert run.name == "gan, seed 1"
    assert run.better_peer == 100
    assert list(run.behind()) == [("pgmo", 1.5)]
    assert summary.ratio([run], "pgmo", "default") == "0.75 (0.75 to 0.75)"


def test_a_run_without_enough_memory_has_no_peak(summary):
    rows = [{"loop": "gan", "contender": "pgmo", "peak": 9, "out_of_memory": True}]
    assert summary.runs({"rows": rows}) == []
