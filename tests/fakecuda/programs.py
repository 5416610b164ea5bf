"""Programs in their own processes, each with its own stub cards."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests import forked

ROOT = Path(__file__).parents[2]
"""The repository's root."""

_PATHS = {"PYTHONPATH": os.pathsep.join([str(ROOT / "bench"), str(ROOT)])}


def run_program(code: str, **environment: str) -> Any:
    """Run Python code under further settings, and return its last line of output as JSON.

    The code may import modules of `bench` and `tests`. PyTorch and the stub read their
    settings when a device is first used. Only the choice of the allocator backend is read earlier.
    """
    environment = _PATHS | environment
    if any(value.startswith("backend:") for value in environment.values()):
        command = [sys.executable, "-c", code]
        variables = os.environ | environment
        done = subprocess.run(command, env=variables, capture_output=True, text=True)
        return _printed(forked.Ended(done.stdout, done.stderr, done.returncode))
    return _printed(forked.run(code, **environment))


def run_command(folder: Path, *command: str, **environment: str) -> Any:
    """Run `python COMMAND`, and return its last line of output as JSON."""
    variables = os.environ | _PATHS | environment
    return _printed(forked.run_command(folder, *command, environment=variables))


def _printed(ended: forked.Ended) -> Any:
    assert ended.exit_code == 0, ended.errors
    return json.loads(ended.output.splitlines()[-1])
