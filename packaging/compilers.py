"""Compilers whose binaries run with an older C library than this system's.

    build/wheel-tools/bin/python packaging/compilers.py --out build/compilers

The compilers run zig's clang, which links against any version of glibc. The compiler of the native
module links libc++ statically. The script writes `adapter-c++`, which compiles adapters. Adapters
share classes with PyTorch, so they use PyTorch's C++ library, libstdc++, with the headers of this
system's g++. Functions that these headers need from a newer libstdc++ come from packaging/portable.
"""

import argparse
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

GLIBC = "2.28"  # the version of manylinux_2_28, as for PyTorch's own wheels
PORTABLE = Path(__file__).resolve().parent / "portable"


def write_adapter_compiler(out: Path) -> None:
    """Write `adapter-c++` to a folder, which is created if it is missing."""
    out.mkdir(parents=True, exist_ok=True)
    # zig's C++ driver would search the headers of libc++ first, so the C driver is used.
    headers = [f"-I{path}" for path in (PORTABLE, *libstdcxx_headers())]
    compiler = [*zig("cc"), *headers]
    later = out / "libstdcxx_later.o"
    source = PORTABLE / "libstdcxx_later.cpp"
    run(*compiler, "-std=c++20", "-O2", "-fPIC", "-c", str(source), "-o", str(later))
    libraries = [str(later), str(Path(asked("-print-file-name=libstdc++.so")).resolve()), "-lgcc_s"]
    folder = Path(asked("-print-file-name=libgcc_s.so")).parent
    last = [*libraries, f"-L{folder}", "-Qunused-arguments"]
    write_command(out / "adapter-c++", compiler, last)


def zig(driver: str) -> list[str]:
    """Return the command of a compiler, "cc" or "c++", for this system's processor."""
    target = f"{platform.machine()}-linux-gnu.{GLIBC}"
    return [sys.executable, "-m", "ziglang", driver, "-target", target]


def write_command(path: Path, words: list[str], last: list[str] | None = None) -> None:
    """Write a script that runs `words` with the script's arguments, followed by `last`."""
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@" {shlex.join(last or [])}\n')
    path.chmod(0o755)


def libstdcxx_headers() -> list[str]:
    """Return the folders of libstdc++'s headers, in the order in which g++ searches them."""
    asked_for = subprocess.run(
        ["g++", "-E", "-x", "c++", "-v", "/dev/null"], capture_output=True, text=True, check=True
    )
    found = [line.strip() for line in asked_for.stderr.splitlines() if line.startswith(" /")]
    return [path for path in found if "c++" in Path(path).parts]


def asked(question: str) -> str:
    """Return the output of g++ for an option such as `-print-file-name=...`."""
    answer = subprocess.run(["g++", question], capture_output=True, text=True, check=True)
    return answer.stdout.strip()


def asked_of(python: str, variable: str) -> str:
    """Return a build variable of a Python; "" if it is not set."""
    code = "import sys, sysconfig; print(sysconfig.get_config_var(sys.argv[1]) or '')"
    command = [python, "-c", code, variable]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def copy_headers(python: str, out: Path) -> None:
    """Copy the headers of a Python to a folder.

    On Debian, the `pyconfig.h` that depends on the processor is in another folder.
    """
    there = Path(asked_of(python, "INCLUDEPY"))
    shutil.copytree(there, out, dirs_exist_ok=True)
    apart = there.parent / (asked_of(python, "MULTIARCH") or ".") / there.name / "pyconfig.h"
    if apart.exists():
        shutil.copyfile(apart, out / "pyconfig.h")


def environment(out: Path, python: str) -> dict[str, str]:
    """Return the environment variables with which setuptools builds the native module.

    Args:
        out: folder to which compilers and Python's headers are written, because zig does not
            search /usr/include.
        python: interpreter for which the module is built.
    """
    out.mkdir(parents=True, exist_ok=True)
    headers, compiler = out / "headers", out / "native-c++"
    write_command(compiler, zig("c++"))
    write_command(out / "native-cc", zig("cc"))
    copy_headers(python, headers)
    flags = f"-DNDEBUG -I{headers}"
    return {
        "CC": str(out / "native-cc"),
        "CXX": str(compiler),
        "LDSHARED": f"{compiler} -shared",
        "LDCXXSHARED": f"{compiler} -shared",
        "CFLAGS": flags,
        "CXXFLAGS": flags,
        "LDFLAGS": "-Wl,--strip-all",
    }


def run(*command: str) -> None:
    """Run a command, and raise `CalledProcessError` if it fails."""
    subprocess.run(command, check=True)


def main() -> None:
    """Write the compiler of adapters."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    write_adapter_compiler(parser.parse_args().out.resolve())


if __name__ == "__main__":
    main()
