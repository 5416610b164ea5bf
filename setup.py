"""Builds the native module `pgmo._core` and ships the adapters' sources with the package.

The adapters (csrc/adapters) are compiled on the user's machine against the installed framework
when they are first needed, unless packaging/prebuild.py has compiled them before. So nothing here
needs torch or CUDA.

Environment switches:
    PGMO_DEBUG=1        build the native module with -O0 -g
    PGMO_BUILD_JOBS=N   compile so many files at a time (default: one per processor)
    PGMO_NATIVE=0       build no native module: that of another environment lies in the checkout
"""

import os
import shutil
from glob import glob
from pathlib import Path

from pybind11.setup_helpers import ParallelCompile, Pybind11Extension
from setuptools import setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
DEBUG = os.environ.get("PGMO_DEBUG") == "1"


# What is compiled on the user's machine.
COMPILED_LATER = (
    *("adapters/*.cpp", "adapters/**/*.hpp"),
    *("baseline/pgmo_baseline.h", "engine/pgmo_engine.h", "pages/pgmo_pages.h"),
    *("rehearsal/**/*.cpp", "rehearsal/**/*.hpp"),
)


class BuildPyWithAdapterSources(build_py):
    """Copies what the run-time compilation of adapters reads into `pgmo/_csrc`."""

    def run(self) -> None:
        """Builds as usual, then copies."""
        super().run()
        if self.editable_mode:
            return  # a checkout reads ../csrc itself
        for pattern in COMPILED_LATER:
            for source in (ROOT / "csrc").glob(pattern):
                target = Path(self.build_lib, "pgmo", "_csrc", source.relative_to(ROOT / "csrc"))
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)


ParallelCompile("PGMO_BUILD_JOBS").install()

core = Pybind11Extension(
    "pgmo._core",
    sorted(
        path
        for folder in (
            "alignment",
            "baseline",
            "engine",
            "packing",
            "pages",
            "recompute",
            "bindings",
        )
        for path in glob(f"csrc/{folder}/**/*.cpp", recursive=True)
    ),
    depends=sorted(glob("csrc/**/*.hpp", recursive=True) + glob("csrc/**/*.h", recursive=True)),
    include_dirs=["csrc"],
    libraries=["dl"],  # part of the C library since glibc 2.34
    cxx_std=20,
    # What the code checks itself, at a level of csrc/checks.hpp; nothing by default.
    define_macros=[("PGMO_CHECKS", level)] if (level := os.environ.get("PGMO_CHECKS")) else [],
    extra_compile_args=["-O0", "-g"] if DEBUG else ["-O3", "-g0"],
)

setup(
    ext_modules=[] if os.environ.get("PGMO_NATIVE") == "0" else [core],
    cmdclass={"build_ext": build_ext, "build_py": BuildPyWithAdapterSources},
)
