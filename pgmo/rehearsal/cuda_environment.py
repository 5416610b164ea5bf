"""Environments with a CUDA build of torch, for machines with another build of torch.

    DIR/bin/python        a virtual environment of this Python
    site-packages         the CUDA build of torch, and its requirements
    pgmo.pth              adds the packages of the original environment

So scripts find the libraries of the original environment, even libraries that are installed later.
"""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

from pgmo.errors import RehearsalError
from pgmo.rehearsal.environment import PACKAGES
from pgmo.rehearsal.library import find_torch_build

_STDERR = 2


def make_environment(folder: Path, progress: Callable[[str], None]) -> str:
    """Make an environment with a CUDA build of torch, unless it exists, and return its Python.

    The new environment gets this environment's version of torch, or the newest version if this
    environment has no torch. Output of pip goes to stderr. After an error, the folder is removed.

    Raises:
        RehearsalError: if the folder has other contents, or torch cannot be installed.
    """
    python = os.path.abspath(folder / "bin/python")
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        try:
            _install(folder, python, progress)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    elif not _has_cuda_build(python):
        raise RehearsalError(
            f"{folder} exists and has no CUDA build of torch: name a folder that does not exist, "
            "or remove it"
        )
    return python


def _install(folder: Path, python: str, progress: Callable[[str], None]) -> None:
    torch = _torch_requirement()
    progress(f"installing {torch}, several gigabytes, in {folder}")
    _run(sys.executable, "-I", "-m", "venv", str(folder))
    _run(python, "-I", "-m", "pip", "install", torch)
    if not _has_cuda_build(python):
        raise RehearsalError(
            f"pip has installed a CPU build for {torch}: name an index that has CUDA builds "
            "in PIP_INDEX_URL"
        )
    _share_packages(folder)


def _torch_requirement() -> str:
    """Return the requirement of this environment's release of torch; "torch" without torch."""
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return "torch"
    return f"torch=={version.partition('+')[0]}"


def _has_cuda_build(python: str) -> bool:
    try:
        find_torch_build(python)
    except RehearsalError:
        return False
    return True


def _share_packages(folder: Path) -> None:
    """Append this environment's packages to the new environment's, and hide `folder` from git."""
    places = {"base": str(folder), "platbase": str(folder)}
    packages = sysconfig.get_path("purelib", "venv", places)
    shared = [one for one in sys.path if Path(one).name in PACKAGES]
    lines = [f"import site; site.addsitedir({one!r})\n" for one in shared]
    Path(packages, "pgmo.pth").write_text("".join(lines))
    (folder / ".gitignore").write_text("*\n")


def _run(*command: str) -> None:
    try:
        subprocess.run(command, stdout=_STDERR, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise RehearsalError(
            f"no environment was made: {' '.join(command)} failed, for the reason above"
        ) from error
