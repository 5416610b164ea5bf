"""The stubs of the native module: written from it, and checked to be current by a test."""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

STUB = Path(__file__).resolve().parent.parent / "pgmo" / "_core.pyi"


def generate() -> str:
    """The stub that pybind11-stubgen makes of the module as it is built now, formatted."""
    with tempfile.TemporaryDirectory() as folder:
        generator = [sys.executable, "-m", "pybind11_stubgen", "pgmo._core", "-o", folder]
        subprocess.run([*generator, "--exit-code"], check=True, capture_output=True)
        made = Path(folder, "pgmo", "_core.pyi")
        for command in (["check", "--fix", "--quiet", "--ignore", "ALL"], ["format", "--quiet"]):
            ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(STUB), "-"]
            result = subprocess.run(
                ruff, input=made.read_text(), capture_output=True, text=True, check=True
            )
            made.write_text(result.stdout)
        return made.read_text()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {STUB.name}")
    if parser.parse_args().write:
        STUB.write_text(generate())
    else:
        sys.stdout.write(generate())
