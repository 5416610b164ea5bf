"""The memory benchmark, on tiny networks."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BENCH = [sys.executable, str(ROOT / "bench/fakecuda_memory.py")]


def run(*arguments):
    done = subprocess.run([*BENCH, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_benchmark_measures_pytorchs_own_allocators(tmp_path):
    results = tmp_path / "results.json"
    stub = Path(os.environ["PGMO_FAKECUDA"]).parent
    allocators = ("--allocator", "default", "--allocator", "expandable")
    run("--quick", "--network", "gpt", *allocators, "--stub", str(stub), "-o", str(results))
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
    efficiency, largest = run("--table", "-o", str(results)).strip().split("\n\n")
    assert f"{found['rows'][0]['efficiency']:.3f}" in efficiency
    assert f"| {batches['default']} | {batches['expandable']} | {batches['bound']} |" in largest
