"""Functions that build with native.mk, and run commands in the project's folder."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "tests" / "native"
BUILT = ROOT / "build" / "native"

needs_compiler = pytest.mark.skipif(
    shutil.which("make") is None or shutil.which(os.environ.get("CXX", "g++")) is None,
    reason="the native tests need make and a C++20 compiler (g++, or the one CXX names)",
)


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def make(target: str) -> None:
    made = run("make", "--no-print-directory", "-f", "tests/native/native.mk", "-j2", target)
    assert made.returncode == 0, made.stdout + made.stderr
    assert "warning" not in made.stderr, made.stderr
