"""Command `python3 setup.py build_ext --inplace` for any version of setuptools.

Versions before 77 refuse the project's metadata, which the build does not need and does not read.
"""

import os
import runpy
import sys
from pathlib import Path

from setuptools import Distribution

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    os.chdir(ROOT)
    Distribution.parse_config_files = lambda *_, **__: None  # type: ignore[method-assign]
    sys.argv = ["setup.py", "--quiet", "build_ext", "--inplace"]
    runpy.run_path("setup.py", run_name="__main__")


if __name__ == "__main__":
    main()
