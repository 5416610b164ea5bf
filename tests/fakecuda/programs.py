"""Programs in processes of their own, each with cards of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests import forked

ROOT = Path(__file__).parents[2]
"""The repository's root."""

_READ_LATE = ("PGMO_", "PYTHONPATH", "FAKECUDA_BYTES", "FAKECUDA_COPY_LIMIT", "FAKECUDA_MANAGED")
"""What neither torch nor the stub has read when torch has been imported."""


def run_program(code: str, **environment: str) -> Any:
    """Runs Python code under further settings; returns what it printed last, read as JSON."""
    if all(name.startswith(_READ_LATE) for name in environment):
        ended = forked.run(code, **environment)
        output, errors, exit_code = ended.output, ended.errors, ended.exit_code
    else:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
        )
        output, errors, exit_code = done.stdout, done.stderr, done.returncode
    assert exit_code == 0, errors
    return json.loads(output.splitlines()[-1])
