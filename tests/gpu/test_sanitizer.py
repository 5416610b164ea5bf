"""Tests that compute-sanitizer finds no error, if the tool is installed and works."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.device import STUB
from tests.gpu.processes import run_module

_USUAL = Path("/usr/local/cuda/bin/compute-sanitizer")
TOOL = shutil.which("compute-sanitizer") or (str(_USUAL) if _USUAL.exists() else "")
FOUND = 86
"""Exit code of the tool if it finds an error; otherwise, it is that of the program."""


# Libraries query a device by calls that may fail, which are no errors.
MEMCHECK = [TOOL, "--tool", "memcheck", "--report-api-errors", "no", "--error-exitcode", str(FOUND)]
SUMMARY = "ERROR SUMMARY"


@pytest.fixture(scope="module")
def works():
    """Skip the tests if the tool fails on a program without pgmo."""
    alone = [sys.executable, "-c", "import torch; torch.zeros(1, device='cuda')"]
    try:
        process = subprocess.run(
            [*MEMCHECK, *alone], capture_output=True, text=True, timeout=40, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip("compute-sanitizer takes more than 40 s for a single number here")
    written = process.stdout + process.stderr
    if process.returncode or SUMMARY not in written:
        pytest.skip(f"compute-sanitizer does not work here: {written[-300:]}")


@pytest.mark.slow
@pytest.mark.skipif(STUB or not TOOL, reason="needs compute-sanitizer and a device")
@pytest.mark.usefixtures("works")
@pytest.mark.parametrize(
    "arguments",
    [
        ("stream_scenario", "--delay", "1000000"),
        ("run_program", "perceptron", "--mode", "pgmo", "--iterations", "8"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_memcheck(arguments):
    try:
        process = run_module(*arguments, before=MEMCHECK, timeout=60)
    except subprocess.TimeoutExpired:
        # The tool is slow; other tests run the same programs without it.
        pytest.skip("compute-sanitizer takes more than a minute here")
    written = process.stdout + process.stderr
    assert process.returncode == 0, written[-4000:]
    assert f"{SUMMARY}: 0 errors" in written
