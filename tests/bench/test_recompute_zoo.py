"""Test of `bench/recompute_zoo.py` on a model of transformers, whose bits are the same."""

import json
from pathlib import Path

import pytest

from tests.integration.running import run

pytest.importorskip("transformers")

BENCH = Path(__file__).parents[2] / "bench"
SCRIPT = BENCH / "recompute_zoo.py"


@pytest.mark.slow
def test_a_model_has_the_same_bits_under_all_changes(tmp_path):
    output = tmp_path / "zoo.json"
    done = run(tmp_path, SCRIPT, "--quick", "--models", "GPT-2", "--output", output)
    assert "| GPT-2 | transformers | yes |" in done.stdout
    (row,) = json.loads(output.read_text())["rows"]
    assert len(row["same"]) == 5
    ways = {(way["way"], way["setting"]): way for way in row["ways"]}
    assert ways["pgmo", 0.5]["peak_share"] <= 0.51
    assert ways["pgmo", "min"]["peak_share"] <= ways["checkpoint", "each block"]["peak_share"]
