"""Search for the headers of the CUDA runtime in toolkits and in wheels that torch depends on.

To compile the CUDA adapter, pgmo needs only a C++ compiler and these headers. The wheel of the CUDA
runtime lacks the folder `crt`. Triton's wheel, which torch's CUDA builds require, has all headers.
"""

import os
import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from pgmo.errors import AdapterError

_NEEDED = ("cuda_runtime_api.h", "crt/host_defines.h")


def cuda_include() -> Path:
    """Return the first complete folder of CUDA headers; raise `AdapterError` if there is none."""
    for folder in _candidates():
        if all((folder / name).exists() for name in _NEEDED):
            return folder
    raise AdapterError(
        "pgmo needs the headers of the CUDA runtime to build its adapter, and found none: neither "
        "a CUDA toolkit (nvcc in PATH, /usr/local/cuda, CUDA_HOME) nor triton, which torch's CUDA "
        "builds bring. Install one: pip install triton, or the CUDA toolkit."
    )


def _candidates() -> Iterator[Path]:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(name):
            yield from _inside(Path(os.environ[name]))
    for scheme in ("purelib", "platlib"):
        site = Path(sysconfig.get_path(scheme))
        yield site / "triton" / "backends" / "nvidia" / "include"
        yield from sorted(site.glob("nvidia/*/include"))
    yield from _imported_triton()
    nvcc = shutil.which("nvcc")
    if nvcc:
        yield from _inside(Path(nvcc).resolve().parent.parent)
    yield from _inside(Path("/usr/local/cuda"))


def _inside(home: Path) -> Iterator[Path]:
    yield home / "include"
    yield from sorted(home.glob("targets/*/include"))


def _imported_triton() -> Iterator[Path]:
    """Yield the headers of the triton that Python imports, which may be outside `site-packages`."""
    from importlib.util import find_spec

    found = find_spec("triton")
    for location in (found.submodule_search_locations or []) if found else []:
        yield Path(location) / "backends" / "nvidia" / "include"
