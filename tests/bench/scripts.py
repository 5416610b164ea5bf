"""Names of the benchmarks, and their quick runs."""

import json
from pathlib import Path

from tests.integration.running import run

BENCH = Path(__file__).parents[2] / "bench"

CPU = (
    "cpu_training",
    "engine",
    "packing",
    "planning",
    "real_programs",
    "recompute",
)
"""Benchmarks that need neither a GPU nor the stub runtime, which `make bench` runs."""


def all_scripts(folder=BENCH):
    """Return the names of the benchmarks in a folder."""
    return sorted(path.stem for path in folder.glob("[!_]*.py"))


def quick_result(folder, name, *options, shown=""):
    """Run a benchmark with --quick, look for a text in its output, and return its result."""
    output = folder / f"{name}.json"
    done = run(folder, BENCH / f"{name}.py", "--quick", "--output", output, *options)
    assert shown in done.stdout
    result = json.loads(output.read_text())
    assert result["benchmark"] == name
    assert result["quick"]
    return result
