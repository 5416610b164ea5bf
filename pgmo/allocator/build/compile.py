"""Compilation of adapters on the user's machine, once per version of the framework.

An adapter includes the framework's own headers, whose classes differ between versions. Wheels of
pgmo contain some adapters (`prebuilt.py`). Other adapters are compiled in a few seconds, and kept
in the user's cache directory (`PGMO_CACHE_DIR`).
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from pgmo.allocator.build.adapter_cache import ADAPTERS, LEFT, compiling, loadable
from pgmo.errors import AdapterError, FileError
from pgmo.files.cache_folder import (
    DamageError,
    DistrustError,
    cache_directory,
    keep,
    open_file,
    open_folder,
    reach,
)
from pgmo.files.leftovers import hold, sweep
from pgmo.terminal import print_message

_EXTRA_FLAGS = "PGMO_ADAPTER_FLAGS"
"""Environment variable with further compiler arguments, for tests and unusual systems."""

_BUILD = "pgmo-build-"
_BUILDS = re.compile(re.escape(_BUILD) + ".+")
"""Names of the temporary folders in which adapters are compiled."""

_MISSING_COMPILER = """\
pgmo needs a C++20 compiler to build the adapter for {what}, and found none.
Install one (Debian, Ubuntu: apt install g++ / Fedora: dnf install gcc-c++ / \
conda: conda install gxx), or name yours in the environment variable CXX."""


@dataclass(frozen=True)
class AdapterSource:
    """Source of an adapter, with the framework and flags to compile it against.

    Args:
        name: file name of the source in csrc/adapters, without its suffix.
        what: framework for messages, such as "PyTorch 2.13.0 (CPU)".
        version: version of the framework; part of the cache key.
        flags: compiler and linker arguments: include directories, libraries, macros.
        generated: texts of generated files that the source includes, by file name.
        headers: the framework's folder of headers; None if there can be no prebuilt adapter.
        abi: strings such as "cuda 13" that determine the binary interface in addition to the
            headers.
    """

    name: str
    what: str
    version: str
    flags: tuple[str, ...]
    generated: Mapping[str, str] = field(default_factory=dict)
    headers: Path | None = None
    abi: tuple[str, ...] = ()


@contextmanager
def compiled_adapter(source: AdapterSource) -> Iterator[Path]:
    """Yield a path from which the adapter can be loaded; compile the adapter if needed."""

    def build(folder: Path) -> Path:
        for name, text in source.generated.items():
            Path(folder, name).write_text(text)
        return compile_adapter(source, folder)

    with compiled_library(adapter_path(source), f"the adapter for {source.what}", build) as path:
        yield path


@contextmanager
def compiled_library(path: Path, what: str, build: Callable[[Path], Path]) -> Iterator[Path]:
    """Yield a path from which a library can be loaded; build the library if needed.

    If several processes start at once, one process builds the library and the other processes wait.
    If the cache cannot be trusted or written, the library is built for this process only.

    Args:
        path: path in the cache, in the folder of adapters of `cache_directory()`.
        what: name for messages, such as "the adapter for PyTorch 2.13.0 (CPU)".
        build: builds the library in an empty temporary folder; returns the file.

    Raises:
        AdapterError: if the cache folder is a file, there is no temporary folder, or `build` fails.
    """
    with ExitStack() as opened:
        library, path = _open(path, what, build, opened)
        opened.callback(os.close, library)
        yield loadable(library, path)


@contextmanager
def kept_adapter(source: AdapterSource) -> Iterator[Path]:
    """Yield a path from which an adapter in the cache can be loaded. Compile and change nothing.

    Raises:
        AdapterError: if there is no compiler, because the file name depends on the compiler's
            command; or if the native sources are missing.
        DistrustError, DamageError: if the file exists, but must not be loaded.
        OSError: if the file does not exist or cannot be read.
    """
    path = adapter_path(source)
    with ExitStack() as opened:
        folder = open_folder(path.parent.parent, ADAPTERS, make=False)
        opened.callback(os.close, folder)
        library, _ = open_file(folder, path.name)
        opened.callback(os.close, library)
        yield loadable(library, path)


def adapter_path(source: AdapterSource) -> Path:
    """Return the path of an adapter in the cache. The file need not exist yet."""
    fingerprint = _fingerprint(source, native_sources(), find_compiler(source.what))
    return cache_directory() / ADAPTERS / f"{source.name}-{source.version}-{fingerprint}.so"


def native_sources() -> Path:
    """Return the directory of pgmo's native sources; raise `AdapterError` if it is missing."""
    package = Path(__file__).resolve().parents[2]
    for candidate in (package / "_csrc", package.parent / "csrc"):
        if (candidate / "engine" / "pgmo_engine.h").exists():
            return candidate
    raise AdapterError(f"the sources of pgmo's adapters are missing from {package}; reinstall pgmo")


def find_compiler(what: str) -> list[str]:
    """Return the C++ compiler's command (`CXX`, g++, c++ or clang++), or raise `AdapterError`."""
    chosen = os.environ.get("CXX", "").strip()
    for candidate in (chosen,) if chosen else ("g++", "c++", "clang++"):
        try:
            program, *arguments = shlex.split(candidate)  # as in CXX="ccache g++"
        except ValueError as error:
            raise AdapterError(f"CXX={candidate!r} is no command: {error}") from None
        found = shutil.which(program)
        if found:
            return [found, *arguments]
    missing = _MISSING_COMPILER.format(what=what)
    tried = f"\n(CXX is {chosen!r} now, so no other compiler was tried.)" if chosen else ""
    raise AdapterError(missing + tried)


def _fingerprint(source: AdapterSource, sources: Path, compiler: list[str]) -> str:
    """Return a digest of the inputs of the binary: pgmo's sources, flags, versions, compiler."""
    digest = hashlib.sha256()
    for path in native_files(source, sources):
        digest.update(path.read_bytes())
    texts = (*source.flags, source.version, *source.generated.values(), *compiler)
    for text in (*texts, os.environ.get(_EXTRA_FLAGS, ""), sysconfig.get_platform()):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:16]


def native_files(source: AdapterSource, sources: Path) -> list[Path]:
    """Return the files of pgmo from which an adapter is compiled, its own source first."""
    headers = sorted((sources / "adapters").rglob("*.hpp"))
    names = ("baseline/pgmo_baseline.h", "engine/pgmo_engine.h", "pages/pgmo_pages.h")
    tables = [sources / name for name in names]
    return [sources / "adapters" / f"{source.name}.cpp", *headers, *tables]


def _open(
    path: Path, what: str, build: Callable[[Path], Path], opened: ExitStack
) -> tuple[int, Path]:
    """Return a descriptor and the path of a library; build the library if the cache lacks it."""

    @cache
    def built() -> Path:
        return _build(what, build, opened)

    try:
        folder = open_folder(path.parent.parent, ADAPTERS, make=True)
        opened.callback(os.close, folder)
        sweep(reach(folder), LEFT)
        with suppress(FileNotFoundError, DistrustError, DamageError):
            return open_file(folder, path.name)[0], path
        with compiling(folder, path.name):
            with suppress(FileNotFoundError, DistrustError, DamageError):
                return open_file(folder, path.name)[0], path  # another process has compiled it
            keep(folder, path.name, built().read_bytes())
            return open_file(folder, path.name)[0], path
    except (NotADirectoryError, FileExistsError) as error:
        raise AdapterError(
            f"cannot write {what}, which is compiled here, to {path.parent}: {error}. "
            "Set PGMO_CACHE_DIR to a directory that can be written."
        ) from error
    except (OSError, FileError, DistrustError, DamageError) as error:
        _report_not_cached(what, path.parent, error)
    return os.open(built(), os.O_RDONLY | os.O_CLOEXEC), built()


def _report_not_cached(what: str, folder: Path, error: Exception) -> None:
    cause = error.__cause__ if isinstance(error, FileError) else error
    why = f"{folder} cannot be used: {getattr(cause, 'strerror', None) or cause}"
    if isinstance(error, DistrustError):
        why = f"nothing is loaded from {folder}, because {error}"
    print_message(
        f"pgmo: {what} is compiled for this process only: {why}. To keep "
        "it, set PGMO_CACHE_DIR to a folder of your own"
    )


def _build(what: str, build: Callable[[Path], Path], opened: ExitStack) -> Path:
    """Build a library in a temporary folder, which is removed when `opened` is closed."""
    try:
        sweep(Path(tempfile.gettempdir()), _BUILDS)
        folder = Path(tempfile.mkdtemp(prefix=_BUILD))
        opened.callback(shutil.rmtree, folder, ignore_errors=True)
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        opened.callback(os.close, held)
        hold(held)
        print_message(f"pgmo: compiling {what} (a few seconds)")
        return build(folder)
    except (OSError, FileError) as error:
        raise AdapterError(
            f"cannot compile {what}, which needs a temporary folder: {error}. If the folder is the "
            "cause, set TMPDIR to a folder that can be written and has room."
        ) from error


def compile_adapter(source: AdapterSource, folder: Path, *more: str) -> Path:
    """Compile an adapter in the folder of its generated files; return the path of the library."""
    sources, compiler = native_sources(), find_compiler(source.what)
    target = folder / f"{source.name}.so"
    extra = shlex.split(os.environ.get(_EXTRA_FLAGS, ""))
    command = [
        *(*compiler, "-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility-inlines-hidden"),
        *("-I", str(folder), "-I", str(sources), str(native_files(source, sources)[0])),
        *("-o", str(target), *source.flags, *extra, *more),
    ]
    # If the compiler is killed, its temporary files are removed together with the folder.
    environment = {**os.environ, "TMPDIR": str(folder)}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if result.returncode != 0:
        errors = [line for line in result.stderr.splitlines() if "error" in line][:5]
        detail = "\n".join(errors or result.stderr.splitlines()[-5:])
        raise AdapterError(
            f"compiling the adapter for {source.what} failed with {' '.join(compiler)} "
            f"(exit code {result.returncode}):\n{detail}\n"
            "The adapter needs C++20 (g++ 11 or clang 14 at least). The variable CXX can name "
            f"another compiler. The command was:\n{' '.join(command)}"
        )
    return target
