"""Stub runtime for a build of torch, compiled on first use and cached next to the adapters."""

import hashlib
import json
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pgmo.allocator.build.adapter_cache import ADAPTERS
from pgmo.allocator.build.compile import compiled_library, find_compiler
from pgmo.errors import RehearsalError
from pgmo.files.cache_folder import cache_directory
from pgmo.rehearsal import build

PYTHON = "PGMO_REHEARSAL_PYTHON"
"""Environment variable with the default Python interpreter for rehearsals."""

_NAME = "rehearsal"

_ASK = """
import importlib.util, json, sys
spec = importlib.util.find_spec("torch")
print(json.dumps([sys.platform, spec and spec.submodule_search_locations[0]]))
"""


@dataclass(frozen=True)
class TorchBuild:
    """CUDA build of torch, its folder, and the interpreter of its environment."""

    python: str
    folder: Path
    version: str


def find_torch_build(python: str | None = None) -> TorchBuild:
    """Find the CUDA build of torch of an interpreter, without importing torch.

    The default is the interpreter of `PGMO_REHEARSAL_PYTHON`, else this interpreter.

    Raises:
        RehearsalError: if the interpreter has no CUDA build of torch, does not start, or does not
            run on Linux.
    """
    python = python or os.environ.get(PYTHON) or sys.executable
    try:
        asked = subprocess.run(
            [python, "-c", _ASK], capture_output=True, text=True, check=True, timeout=60
        )
        platform, found = json.loads(asked.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise RehearsalError(f"{python} does not run here as Python: {error}") from error
    if platform != "linux":
        raise RehearsalError(
            f"a rehearsal runs on Linux, and this is {platform}: use a Linux machine, WSL or a "
            "container; it needs no GPU"
        )
    install = (
        "which a rehearsal needs: `pgmo fit --environment .venv-cuda` makes an environment that "
        "has one (several gigabytes); no GPU is needed"
    )
    if found is None:
        raise RehearsalError(f"{python} has no CUDA build of torch, {install}")
    folder = Path(found)
    if not (folder / "lib/libtorch_cuda.so").exists():
        raise RehearsalError(f"the torch of {python} is not a CUDA build, {install}")
    return TorchBuild(python, folder, _version(folder))


@contextmanager
def stub_library(torch: TorchBuild) -> Iterator[Path]:
    """Yield the stub library's path for the block, or raise `AdapterError` or `RehearsalError`."""
    what = f"the stub CUDA runtime for torch {torch.version}"
    compiler = find_compiler(what)

    def built(folder: Path) -> Path:
        try:
            return build.build(torch.folder, folder, compiler)
        except build.BuildError as error:
            raise RehearsalError(f"{what} cannot be compiled: {error}") from error

    if not build.SOURCES:
        raise RehearsalError("the sources of the stub CUDA runtime are missing; reinstall pgmo")
    name = f"{_NAME}-{torch.version}-{_fingerprint(torch, compiler)}.so"
    with compiled_library(cache_directory() / ADAPTERS / name, what, built) as path:
        yield path


def _fingerprint(torch: TorchBuild, compiler: list[str]) -> str:
    """Return a digest of sources, compiler, platform, and torch's version and size."""
    digest = hashlib.sha256()
    for path in (*build.SOURCES, *build.HEADERS, Path(build.__file__)):
        digest.update(path.read_bytes())
    found = (torch.folder / "lib/libtorch_cuda.so").stat()
    texts = (*compiler, sysconfig.get_platform(), torch.version, str(found.st_size))
    for text in texts:
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:16]


def _version(folder: Path) -> str:
    text = (folder / "version.py").read_text()
    found = re.search(r"^__version__\s*=\s*['\"]([^'\"]+)", text, re.MULTILINE)
    return found[1] if found else "unknown"
