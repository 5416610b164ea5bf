"""Test of `bench/recompute_exact.py`: CP-SAT proves the planner's result."""

import json
from pathlib import Path

import pytest

from tests.integration.running import run

pytest.importorskip("torch")
pytest.importorskip("ortools")

SCRIPT = Path(__file__).parents[2] / "bench" / "recompute_exact.py"


def test_a_small_step_is_solved_and_proved(tmp_path):
    output = tmp_path / "exact.json"
    done = run(tmp_path, SCRIPT, "--quick", "--output", output, "--seconds", "60")
    assert "| MLP, widening | 9 + 19 | 0." in done.stdout
    (row,) = json.loads(output.read_text())["rows"]
    assert row["least"]["proved"]
    assert row["least"]["optimum"] <= row["least"]["found"] <= 1.02 * row["least"]["optimum"]
    assert row["least"]["optimum"] < row["least"]["once"] < row["default_peak"]
    for cell in row["cells"]:
        assert cell["proved"]
        # CP-SAT rounds costs to millionths.
        assert cell["optimum"] - 1e-4 <= cell["overhead"] <= cell["optimum"] + 0.02
