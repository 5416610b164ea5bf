"""`bench/recompute_blocks.py`: a plan is the same whether one block is traced for all or each."""

import json
from pathlib import Path

import pytest

from tests.integration.running import run

pytest.importorskip("torch")
pytest.importorskip("transformers")

SCRIPT = Path(__file__).parents[2] / "bench" / "recompute_blocks.py"


@pytest.mark.slow
def test_a_llama_is_planned_in_the_same_way(tmp_path):
    output = tmp_path / "blocks.json"
    done = run(tmp_path, SCRIPT, "--quick", "--output", output)
    assert "| Llama | 4 |" in done.stdout
    (row,) = json.loads(output.read_text())["rows"]
    assert row["same_plan"]
    assert row["operations"] > 300
    assert all(seconds > 0 for way in row["seconds"].values() for seconds in way)
