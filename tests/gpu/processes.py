"""Runs of the modules of this folder in child processes, and their printed JSON."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests import forked
from tests.gpu.device import STUB

ROOT = Path(__file__).parents[2]


def run_module(
    module: str,
    *arguments: str,
    environment: dict[str, str] | None = None,
    before: Sequence[str] = (),
    timeout: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Run `python -m tests.gpu.MODULE`.

    On the stub, the process has torch imported already, and `before` and `timeout` are ignored.

    Args:
        module: name of the module.
        arguments: arguments of the command.
        environment: further environment variables.
        before: words before the command, such as those of a tool.
        timeout: most seconds of the process.
    """
    command = ["-m", f"tests.gpu.{module}", *arguments]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    variables = {**os.environ, "PYTHONPATH": path, **(environment or {})}
    if STUB:
        ended = forked.run_command(ROOT, *command, environment=variables)
        return subprocess.CompletedProcess(command, ended.exit_code, ended.output, ended.errors)
    return subprocess.run(
        [*before, sys.executable, *command],
        env=variables,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def result_of(process: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the last line of a process's output as JSON; fail with the output if it failed."""
    assert process.returncode == 0, process.stdout[-2000:] + process.stderr[-4000:]
    result: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return result
