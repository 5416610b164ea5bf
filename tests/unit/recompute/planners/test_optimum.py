"""Tests of the planner against optima of twenty small steps, which CP-SAT has proved.

The steps and their optima are results of `bench/recompute_exact.py`.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pgmo.recompute.planners.planning import plan_choice

pytest.importorskip("torch")

from bench.recomputation.step_graphs import read_graph

RESULTS = Path(__file__).parents[4] / "bench" / "results" / "recompute_exact.json"


@cache
def rows() -> dict[str, Any]:
    return {row["name"]: row for row in json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]}


def quick_and_slow() -> list[Any]:
    """Return the names of the steps, every other one marked as slow.

    "LSTM of 2" is not slow, because no other step needs the beam search to meet its budget.
    """
    slow = [name for name in list(rows())[1::2] if name != "LSTM of 2"]
    return [pytest.param(name, marks=pytest.mark.slow if name in slow else ()) for name in rows()]


@pytest.mark.parametrize("name", quick_and_slow())
def test_the_least_peak_and_overheads_are_near_the_optima(name: str) -> None:
    row = rows()[name]
    graph = read_graph(row["graph"])
    budget = int(1.02 * row["least"]["optimum"])
    choice = plan_choice(graph, budget)
    assert row["least"]["optimum"] <= choice.peak <= budget
    assert choice.on(graph).peak == choice.peak
    for cell in row["cells"][1:]:
        choice = plan_choice(graph, cell["budget"])
        assert choice.peak <= cell["budget"]
        assert choice.overhead <= cell["optimum"] + 0.02
        if cell["proved"]:  # CP-SAT rounds costs to millionths
            assert choice.overhead >= cell["optimum"] - 1e-4
