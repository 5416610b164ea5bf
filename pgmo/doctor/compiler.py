"""Whether the compiler that adapters need is there and works."""

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pgmo.allocator.build.compile import find_compiler
from pgmo.errors import AdapterError

# Concepts and designated initialisers: what C++20 has, and no compiler before it.
_PROGRAM = """\
#include <concepts>
struct Pair { int a, b; };
template <std::integral T> T twice(T x) { return x + x; }
extern "C" int pgmo_try() { return twice(Pair{.a = 20, .b = 1}.a) + 2; }
"""
_SECONDS = 60


@dataclass(frozen=True)
class Compiler:
    """The C++ compiler that pgmo would use.

    Args:
        command: its command; "" when there is none.
        version: the first line of what it says about itself.
        error: why it cannot compile a line of C++20 to a library; "" when it can.
    """

    command: str
    version: str
    error: str


def try_compiler() -> Compiler:
    """Finds the compiler as the adapters do, and compiles a few lines with it."""
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
    """The exit code, and what was said."""
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
