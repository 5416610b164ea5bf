"""`bench/recompute_front_ends.py`: both front ends keep the bits and reach the same least peak."""

import json
from pathlib import Path

import pytest

from tests.integration.running import run

pytest.importorskip("torch")
pytest.importorskip("transformers")

SCRIPT = Path(__file__).parents[2] / "bench" / "recompute_front_ends.py"


@pytest.mark.slow
def test_both_front_ends_keep_the_bits_and_the_plan(tmp_path):
    output = tmp_path / "fronts.json"
    done = run(tmp_path, SCRIPT, "--quick", "--models", "ViT", "--output", output)
    assert "| ViT | yes |" in done.stdout
    (row,) = json.loads(output.read_text())["rows"]
    least = [way for way in row["ways"] if way["setting"] == "min"]
    assert [way["way"] for way in least] == ["aotautograd", "dynamo"]
    for way in least:
        assert way["peak_share"] == pytest.approx(way["planned_share"], rel=0.01)
    assert least[1]["peak_share"] == pytest.approx(least[0]["peak_share"], rel=0.02)
