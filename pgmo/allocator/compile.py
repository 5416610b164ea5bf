"""Adapters are compiled on the user's machine, once per version of the framework.

An adapter includes the framework's own headers, whose classes differ between versions, so a binary
made elsewhere would have to be made for each of them. Compiling takes a few seconds, and the result
is kept in the user's cache directory (`PGMO_CACHE_DIR` overrides which).
"""

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path

from pgmo.errors import AdapterError

_EXTRA_FLAGS = "PGMO_ADAPTER_FLAGS"
"""Environment variable with more arguments for the compiler: for tests, and for odd systems."""

_MISSING_COMPILER = """\
pgmo needs a C++20 compiler to build the adapter for {what}, and found none.
Install one (Debian, Ubuntu: apt install g++ / Fedora: dnf install gcc-c++ / \
conda: conda install gxx), or name yours in the environment variable CXX."""


@dataclass(frozen=True)
class AdapterSource:
    """What to compile, and against what.

    Args:
        name: file name of the source in csrc/adapters, without its suffix.
        what: what the adapter is for, for people: "PyTorch 2.13.0 (CPU)".
        version: version of the framework; part of the cache key.
        flags: compiler and linker arguments: include directories, libraries, macros.
        generated: text by file name, which the source includes.

    Example:
        >>> AdapterSource("torch_cpu", "PyTorch 2.13.0 (CPU)", "2.13.0", ("-lc10",)).name
        'torch_cpu'
    """

    name: str
    what: str
    version: str
    flags: tuple[str, ...]
    generated: Mapping[str, str] = field(default_factory=dict)


def compiled_adapter(source: AdapterSource) -> Path:
    """Returns the compiled adapter's path, compiling it first where that has not been done.

    Safe when several processes start at once: one compiles, the others wait for it.

    Raises:
        AdapterError: when there is no compiler, or it fails; the message says what to do.
    """
    target = adapter_path(source)
    if target.exists():
        return target
    sources, compiler, folder = native_sources(), find_compiler(source.what), target.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_suffix(".lock")):
            if not target.exists():
                with _progress(source.what):
                    _compile(source, sources, compiler, target)
    except OSError as error:
        raise AdapterError(
            f"cannot write the compiled adapter for {source.what} to {folder}: {error}. "
            "Set PGMO_CACHE_DIR to a directory that can be written."
        ) from error
    return target


def adapter_path(source: AdapterSource) -> Path:
    """Where the compiled adapter is kept; it is there if it has been compiled.

    Raises:
        AdapterError: when there is no compiler, on which the name depends.
    """
    fingerprint = _fingerprint(source, native_sources(), find_compiler(source.what))
    return cache_directory() / "adapters" / f"{source.name}-{source.version}-{fingerprint}.so"


def cache_directory() -> Path:
    """Where compiled adapters are kept: `PGMO_CACHE_DIR`, or the user's cache directory."""
    chosen = os.environ.get("PGMO_CACHE_DIR")
    return Path(chosen) if chosen else user_cache_path("pgmo", appauthor=False)


def native_sources() -> Path:
    """The directory that holds adapters/ and engine/: in the installed package or in a checkout.

    Raises:
        AdapterError: when neither has them.
    """
    package = Path(__file__).resolve().parent.parent
    for candidate in (package / "_csrc", package.parent / "csrc"):
        if (candidate / "engine" / "pgmo_engine.h").exists():
            return candidate
    raise AdapterError(f"the sources of pgmo's adapters are missing from {package}; reinstall pgmo")


def find_compiler(what: str) -> list[str]:
    """The C++ compiler's command: `CXX`, else the first of g++, c++, clang++ that there is.

    Raises:
        AdapterError: when there is none, saying what to install.
    """
    chosen = os.environ.get("CXX", "").strip()
    for candidate in (chosen,) if chosen else ("g++", "c++", "clang++"):
        program, *arguments = shlex.split(candidate)  # as in CXX="ccache g++"
        found = shutil.which(program)
        if found:
            return [found, *arguments]
    missing = _MISSING_COMPILER.format(what=what)
    raise AdapterError(f"{missing}\n(CXX is {chosen!r} now.)" if chosen else missing)


def _fingerprint(source: AdapterSource, sources: Path, compiler: list[str]) -> str:
    """Changes with anything that the binary depends on."""
    digest = hashlib.sha256()
    headers = sorted((sources / "adapters").glob("*.hpp"))
    for path in (_source_file(source, sources), *headers, sources / "engine" / "pgmo_engine.h"):
        digest.update(path.read_bytes())
    texts = (*source.flags, source.version, *source.generated.values(), *compiler)
    for text in (*texts, os.environ.get(_EXTRA_FLAGS, ""), sysconfig.get_platform()):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:16]


def _source_file(source: AdapterSource, sources: Path) -> Path:
    return sources / "adapters" / f"{source.name}.cpp"


def _compile(source: AdapterSource, sources: Path, compiler: list[str], target: Path) -> None:
    # A name of its own, then a rename: a half-written library is never seen under the final name.
    unfinished = target.with_suffix(f".{os.getpid()}.tmp")
    extra = shlex.split(os.environ.get(_EXTRA_FLAGS, ""))
    with tempfile.TemporaryDirectory() as folder:
        for name, text in source.generated.items():
            Path(folder, name).write_text(text)
        command = [
            *(*compiler, "-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility-inlines-hidden"),
            *("-I", folder, "-I", str(sources), str(_source_file(source, sources))),
            *("-o", str(unfinished), *source.flags, *extra),
        ]
        _run_compiler(command, source, compiler, unfinished, target)


def _run_compiler(
    command: list[str], source: AdapterSource, compiler: list[str], unfinished: Path, target: Path
) -> None:
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            errors = [line for line in result.stderr.splitlines() if "error" in line][:5]
            detail = "\n".join(errors or result.stderr.splitlines()[-5:])
            raise AdapterError(
                f"compiling the adapter for {source.what} failed with {' '.join(compiler)} "
                f"(exit code {result.returncode}):\n{detail}\n"
                f"It needs C++20 (g++ 11 or clang 14 at least); another compiler can be named "
                f"in CXX. The command was:\n{' '.join(command)}"
            )
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def _progress(what: str) -> Iterator[None]:
    message = f"pgmo: compiling the adapter for {what} (once, a few seconds)"
    if not sys.stderr.isatty():
        print(message, file=sys.stderr, flush=True)
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(message):
        yield
