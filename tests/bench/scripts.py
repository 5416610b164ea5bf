"""The benchmarks, and how to run one for a few seconds."""

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
"""Those that need neither a GPU nor the stub of its runtime, which `make bench` runs."""


def all_scripts(folder=BENCH):
    """Names of the benchmarks in a folder."""
    return sorted(path.stem for path in folder.glob("[!_]*.py"))


def quick_result(folder, name, *options):
    """What a quick run writes; it is told where."""
    output = folder / f"{name}.json"
    run(folder, BENCH / f"{name}.py", "--quick", "--output", output, *options)
    result = json.loads(output.read_text())
    assert result["benchmark"] == name
    assert result["quick"]
    return result
