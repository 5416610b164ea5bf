"""Check of the C++ compiler that adapters need."""

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pgmo.allocator.build.compile import find_compiler
from pgmo.errors import AdapterError

# Concepts and designated initialisers: only C++20 compilers have both.
_PROGRAM = """\
#include <concepts>
struct Pair { int a, b; };
template <std::integral T> T twice(T x) { return x + x; }
extern "C" int pgmo_try() { return twice(Pair{.a = 20, .b = 1}.a) + 2; }
"""
_SECONDS = 60


@dataclass(frozen=True)
class Compiler:
    """C++ compiler that pgmo would use. `error` is "" if the compiler can compile C++20."""

    command: str
    version: str
    error: str


def try_compiler() -> Compiler:
    """Find the compiler that builds adapters, and compile a few lines with it."""
    try:
        command = find_compiler("PyTorch")
    except AdapterError as error:
        return Compiler("", "", str(error))
    name = " ".join(command)
    version = _run([*command, "--version"])[1].partition("\n")[0]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "try.cpp")
        source.write_text(_PROGRAM)
        options = ["-std=c++20", "-fPIC", "-shared", str(source), "-o", str(Path(folder, "try.so"))]
        code, said = _run([*command, *options])
    if code == 0:
        return Compiler(name, version, "")
    lines = [line for line in said.splitlines() if "error" in line] or said.splitlines()[-1:]
    return Compiler(name, version, lines[0] if lines else f"exit code {code}")


def _run(command: list[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, done.stdout
