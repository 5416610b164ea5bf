"""Test of `bench/recompute.py` on a tiny network: its claims about plans hold."""

import json
from pathlib import Path

import pytest

from tests.integration.running import run

pytest.importorskip("torch")

SCRIPT = Path(__file__).parents[2] / "bench" / "recompute.py"


@pytest.mark.slow
def test_plans_keep_to_their_budgets_and_to_the_bits(tmp_path):
    output = tmp_path / "recompute.json"
    options = ["--quick", "--networks", "unet", "--repetitions", "1"]
    done = run(tmp_path, SCRIPT, *options, "--output", output)
    assert "| U-Net | pgmo | 0." in done.stdout
    result = json.loads(output.read_text())
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
