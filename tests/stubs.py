"""Type stubs of the native module, generated from it. A test checks that they are current."""

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
"""Types that pybind11 accepts, and the narrower types that pgmo passes without conversion."""


def generate() -> str:
    """Return the formatted stub that pybind11-stubgen makes of the built module."""
    with tempfile.TemporaryDirectory() as folder:
        generator = [sys.executable, "-m", "pybind11_stubgen", "pgmo._core", "-o", folder]
        subprocess.run([*generator, "--exit-code"], check=True, capture_output=True)
        made = Path(folder, "pgmo", "_core.pyi")
        text = made.read_text()
        for wide, narrow in TYPES.items():
            text = re.sub(wide, narrow, text)
        made.write_text(text)
        layout = ["--config", "format.skip-magic-trailing-comma=true"]
        # Docstrings are in csrc/bindings; the rule removes them from the stub.
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
