"""compute-sanitizer finds nothing, where the tool exists and works."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.gpu.device import STUB
from tests.gpu.processes import run_module

_USUAL = Path("/usr/local/cuda/bin/compute-sanitizer")
TOOL = shutil.which("compute-sanitizer") or (str(_USUAL) if _USUAL.exists() else "")
FOUND = 86
"""Its exit code when it found an error; the program's own otherwise."""


@pytest.mark.slow
@pytest.mark.skipif(STUB or not TOOL, reason="needs compute-sanitizer and a device")
@pytest.mark.parametrize(
    "arguments",
    [
        ("stream_scenario", "--delay", "1000000"),
        ("run_program", "perceptron", "--mode", "pgmo", "--iterations", "8"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_memcheck(arguments):
    tool = [TOOL, "--tool", "memcheck", "--error-exitcode", str(FOUND)]
    # Calls of libraries that fail on purpose (queries of what a device can do) are not errors.
    tool += ["--report-api-errors", "no"]
    try:
        process = run_module(*arguments, before=tool, timeout=60)
    except subprocess.TimeoutExpired:
        pytest.skip("compute-sanitizer takes more than a minute here")
    written = process.stdout + process.stderr
    if "ERROR SUMMARY" not in written:
        pytest.skip(f"compute-sanitizer does not work here: {written[-300:]}")
    assert process.returncode == 0, written[-4000:]
    assert "ERROR SUMMARY: 0 errors" in written
