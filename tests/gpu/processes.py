"""Starts a module of these tests in a process of its own and reads the JSON that it prints."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def run_module(
    module: str,
    *arguments: str,
    environment: dict[str, str] | None = None,
    before: Sequence[str] = (),
    timeout: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Runs `python -m tests.gpu.MODULE`, below a tool's command if there is one."""
    command = [*before, sys.executable, "-m", f"tests.gpu.{module}", *arguments]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": path, **(environment or {})},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def result_of(process: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The last line of its output as JSON; fails with what it wrote when it failed."""
    assert process.returncode == 0, process.stdout[-2000:] + process.stderr[-4000:]
    result: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return result
