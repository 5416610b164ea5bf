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


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (at % 2)) for at, name in enumerate(rows())],
)
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
