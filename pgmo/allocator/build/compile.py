"""Adapters are compiled on the user's machine, once per version of the framework.

An adapter includes the framework's own headers, whose classes differ between versions, so a binary
made elsewhere has to be made for each of them; wheels bring some (`prebuilt.py`). Compiling takes a
few seconds, and the result is kept in the user's cache directory (`PGMO_CACHE_DIR` says which).
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
from pgmo.terminal import say

_EXTRA_FLAGS = "PGMO_ADAPTER_FLAGS"
"""Environment variable with more arguments for the compiler: for tests, and for odd systems."""

_BUILD = "pgmo-build-"
_BUILDS = re.compile(re.escape(_BUILD) + ".+")
"""Names of the folders that adapters are compiled in."""

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
        headers: the framework's folder of headers; None where nothing comes with pgmo.
        abi: what settles the binary interface besides the headers, such as "cuda 13".

    Example:
        >>> AdapterSource("torch_cpu", "PyTorch 2.13.0 (CPU)", "2.13.0", ("-lc10",)).name
        'torch_cpu'
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
    """In the block, the compiled adapter can be loaded from a path; it is compiled where needed.

    Safe when several processes start at once: one compiles, the others wait for it. Where the cache
    cannot be trusted or written, the adapter is compiled for this process alone, which is said.

    Raises:
        AdapterError: when there is no compiler, or it fails; the message says what to do.
    """

    def build(folder: Path) -> Path:
        for name, text in source.generated.items():
            Path(folder, name).write_text(text)
        return compile_adapter(source, folder)

    with compiled_library(adapter_path(source), f"the adapter for {source.what}", build) as path:
        yield path


@contextmanager
def compiled_library(path: Path, what: str, build: Callable[[Path], Path]) -> Iterator[Path]:
    """In the block, a library of the cache can be loaded from a path; it is built where needed.

    Safe when several processes start at once: one builds, the others wait for it. Where the cache
    cannot be trusted or written, it is built for this process alone, which is said.

    Args:
        path: where it is kept, in the folder of adapters of `cache_directory()`.
        what: it is, for people: "the adapter for PyTorch 2.13.0 (CPU)".
        build: builds it in an empty folder, which goes when the block ends; returns the file.

    Raises:
        AdapterError: when the cache or the temporary folder is in the way; and what `build` raises.
    """
    with ExitStack() as opened:
        library, path = _open(path, what, build, opened)
        opened.callback(os.close, library)
        yield loadable(library, path)


@contextmanager
def kept_adapter(source: AdapterSource) -> Iterator[Path]:
    """As `compiled_adapter`, but of what is in the cache: nothing is compiled or changed.

    Raises:
        AdapterError: when there is no compiler, on which the name depends.
        FileNotFoundError: it has not been compiled.
        DistrustError, DamageError: it is there, and is not loaded.
        OSError: it cannot be read.
    """
    path = adapter_path(source)
    with ExitStack() as opened:
        folder = open_folder(path.parent.parent, ADAPTERS, make=False)
        opened.callback(os.close, folder)
        library, _ = open_file(folder, path.name)
        opened.callback(os.close, library)
        yield loadable(library, path)


def adapter_path(source: AdapterSource) -> Path:
    """Where the compiled adapter is kept; it is there if it has been compiled.

    Raises:
        AdapterError: when there is no compiler, on which the name depends.
    """
    fingerprint = _fingerprint(source, native_sources(), find_compiler(source.what))
    return cache_directory() / ADAPTERS / f"{source.name}-{source.version}-{fingerprint}.so"


def native_sources() -> Path:
    """The directory that holds adapters/ and engine/: in the installed package or in a checkout.

    Raises:
        AdapterError: when neither has them.
    """
    package = Path(__file__).resolve().parents[2]
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
    for path in native_files(source, sources):
        digest.update(path.read_bytes())
    texts = (*source.flags, source.version, *source.generated.values(), *compiler)
    for text in (*texts, os.environ.get(_EXTRA_FLAGS, ""), sysconfig.get_platform()):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:16]


def native_files(source: AdapterSource, sources: Path) -> list[Path]:
    """The files of pgmo that an adapter is compiled from, in an order that stays."""
    headers = sorted((sources / "adapters").rglob("*.hpp"))
    names = ("baseline/pgmo_baseline.h", "engine/pgmo_engine.h", "pages/pgmo_pages.h")
    tables = [sources / name for name in names]
    return [_source_file(source, sources), *headers, *tables]


def _source_file(source: AdapterSource, sources: Path) -> Path:
    return sources / "adapters" / f"{source.name}.cpp"


def _open(
    path: Path, what: str, build: Callable[[Path], Path], opened: ExitStack
) -> tuple[int, Path]:
    """A descriptor of the library, and where it lies; builds it if the cache does not have it."""

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
        _say_unkept(what, path.parent, error)
    return os.open(built(), os.O_RDONLY | os.O_CLOEXEC), built()


def _say_unkept(what: str, folder: Path, error: Exception) -> None:
    cause = error.__cause__ if isinstance(error, FileError) else error
    why = f"{folder} cannot be written: {getattr(cause, 'strerror', None) or cause}"
    if isinstance(error, DistrustError):
        why = f"nothing is loaded from there, as {error}"
    say(
        f"pgmo: {what} is compiled for this process only: {why}. To keep "
        "it, set PGMO_CACHE_DIR to a folder of your own"
    )


def _build(what: str, build: Callable[[Path], Path], opened: ExitStack) -> Path:
    """Builds it in a folder of its own, which goes when `opened` is closed."""
    try:
        sweep(Path(tempfile.gettempdir()), _BUILDS)
        folder = Path(tempfile.mkdtemp(prefix=_BUILD))
        opened.callback(shutil.rmtree, folder, ignore_errors=True)
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        opened.callback(os.close, held)
        hold(held)
        say(f"pgmo: compiling {what} (once, a few seconds)")
        return build(folder)
    except OSError as error:
        raise AdapterError(
            f"cannot compile {what}, which needs a temporary folder: "
            f"{error}. Set TMPDIR to one that can be written and has room."
        ) from error


def compile_adapter(source: AdapterSource, folder: Path, *more: str) -> Path:
    """Runs the compiler on a source and what was generated for it; all files are in a folder.

    Args:
        source: what to compile.
        folder: has what was generated, and gets the result.
        more: further arguments.

    Raises:
        AdapterError: when there is no compiler, or it fails.
    """
    sources, compiler = native_sources(), find_compiler(source.what)
    target = folder / f"{source.name}.so"
    extra = shlex.split(os.environ.get(_EXTRA_FLAGS, ""))
    command = [
        *(*compiler, "-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility-inlines-hidden"),
        *("-I", str(folder), "-I", str(sources), str(_source_file(source, sources))),
        *("-o", str(target), *source.flags, *extra, *more),
    ]
    # What the compiler would leave in /tmp when it is killed goes with the folder, too.
    environment = {**os.environ, "TMPDIR": str(folder)}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if result.returncode != 0:
        errors = [line for line in result.stderr.splitlines() if "error" in line][:5]
        detail = "\n".join(errors or result.stderr.splitlines()[-5:])
        raise AdapterError(
            f"compiling the adapter for {source.what} failed with {' '.join(compiler)} "
            f"(exit code {result.returncode}):\n{detail}\n"
            f"It needs C++20 (g++ 11 or clang 14 at least); another compiler can be named "
            f"in CXX. The command was:\n{' '.join(command)}"
        )
    return target
