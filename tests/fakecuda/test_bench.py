"""The benchmarks of memory, on tiny networks."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(script, *arguments):
    command = [sys.executable, str(ROOT / "bench" / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_benchmark_measures_pytorchs_own_allocators(tmp_path):
    results = tmp_path / "results.json"
    stub = Path(os.environ["PGMO_FAKECUDA"]).parent
    allocators = ("--allocator", "default", "--allocator", "expandable")
    memory = "fakecuda_memory.py"
    run(memory, "--quick", "--network", "gpt", *allocators, "--stub", str(stub), "-o", str(results))
    found = json.loads(results.read_text())
    assert [row["allocator"] for row in found["rows"]] == ["default", "expandable"]
    for row in found["rows"]:
        assert row["identical"]
        assert not row["out_of_memory"]
        assert row["trained"] == row["iterations"]
        assert row["live"] <= row["reserved"]
        assert row["efficiency"] == row["live"] / row["reserved"]
    batches = {row["allocator"]: row["batch"] for row in found["largest_batch"]}
    assert 0 < batches["default"] <= batches["bound"]
    assert 0 < batches["expandable"] <= batches["bound"]
    efficiency, largest = run(memory, "--table", "-o", str(results)).strip().split("\n\n")
    assert f"{found['rows'][0]['efficiency']:.3f}" in efficiency
    assert f"| {batches['default']} | {batches['expandable']} | {batches['bound']} |" in largest


def test_a_batch_is_begun_from_what_small_ones_foretell(tmp_path):
    """Its kernels take buffers that of the recorded batches only the largest shows."""
    results = tmp_path / "results.json"
    stub = Path(os.environ["PGMO_FAKECUDA"]).parent
    run("fakecuda_extrapolation.py", "--quick", "--stub", str(stub), "-o", str(results))
    default, foretold = json.loads(results.read_text())["rows"]
    assert default["trained"] == foretold["trained"] == 6
    assert foretold["replaying_from"] == 0
    assert foretold["first_hit_bytes_rate"] >= 0.99
    assert foretold["hit_bytes_rate"] >= 0.99
    assert foretold["reserved"] < default["reserved"]
