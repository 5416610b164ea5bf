"""The stubs of the native module: written from it, and checked to be current by a test."""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

STUB = Path(__file__).resolve().parent.parent / "pgmo" / "_core.pyi"
TYPES = {
    r"typing\.SupportsInt \| typing\.SupportsIndex": "int",
    r"typing\.SupportsFloat \| typing\.SupportsIndex": "float",
    r"typing\.Annotated\[numpy\.typing\.ArrayLike, (numpy\.\w+)\]": r"numpy.typing.NDArray[\1]",
    r"\*args, \*\*kwargs\):": "*args: typing.Any, **kwargs: typing.Any) -> typing.Any:",
}
"""What pybind11 would take, and what pgmo hands over: nothing is converted on the way."""


def generate() -> str:
    """The stub that pybind11-stubgen makes of the module as it is built now, formatted."""
    with tempfile.TemporaryDirectory() as folder:
        generator = [sys.executable, "-m", "pybind11_stubgen", "pgmo._core", "-o", folder]
        subprocess.run([*generator, "--exit-code"], check=True, capture_output=True)
        made = Path(folder, "pgmo", "_core.pyi")
        text = made.read_text()
        for wide, narrow in TYPES.items():
            text = re.sub(wide, narrow, text)
        made.write_text(text)
        layout = ["--config", "format.skip-magic-trailing-comma=true"]
        # What things do is said in csrc/bindings: stubs have types only.
        check = ["check", "--isolated", "--fix", "--unsafe-fixes", "--select", "PYI021,F401,I001"]
        for command in ([*check, "--quiet"], ["format", "--quiet", *layout]):
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
