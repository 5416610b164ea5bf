"""Adapters that come with pgmo, compiled where its wheel was made, for machines without a compiler.

    pgmo/_prebuilt/
        manifest.json                     what each was compiled from
        torch_cpu-2.13.0-01234567.so

An adapter is what the compiler would make here if three things are the same: pgmo's own sources
with what is generated for them, what settles the binary interface, and the text of every header of
the framework that it includes. The manifest lists these headers, and a digest of them. So a version
of PyTorch is told by what it is, not by its number: another build of the same classes is served,
too, and a patched one is not. What is not served is compiled, as ever.
"""

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgmo.allocator.build.compile import AdapterSource

FOLDER = Path(__file__).resolve().parents[2] / "_prebuilt"
MANIFEST = "manifest.json"

SWITCH = "PGMO_PREBUILT"
"""Environment variable: with 0, adapters are compiled in any case."""


@dataclass(frozen=True)
class Prebuilt:
    """One adapter that comes with pgmo.

    Args:
        file: its name in the folder.
        made_from: see `made_from`.
        headers: of the framework, relative to its folder of headers.
        digest: of these headers, see `digest_of`.
        what: it is for, for people.

    Example:
        >>> Prebuilt("a.so", "01", ("c10/core/Allocator.h",), "02", "PyTorch 2.13.0 (CPU)").file
        'a.so'
    """

    file: str
    made_from: str
    headers: tuple[str, ...]
    digest: str
    what: str


def find_prebuilt(source: "AdapterSource", folder: Path | None = None) -> Path | None:
    """The adapter that is equal to what compiling would give; None where none is there.

    Args:
        source: what is asked for.
        folder: where they lie; by default in the package.
    """
    if source.headers is None or os.environ.get(SWITCH) == "0":
        return None
    folder = folder or FOLDER
    candidates = read_manifest(folder)
    own = made_from(source) if candidates else ""
    for one in candidates:
        path = folder / one.file
        same = one.made_from == own and one.digest == digest_of(source.headers, one.headers)
        if same and path.is_file():
            return path
    return None


def made_from(source: "AdapterSource") -> str:
    """A digest of pgmo's own part of an adapter, and of what settles its binary interface."""
    from pgmo.allocator.build.compile import native_files, native_sources

    digest = hashlib.sha256(source.name.encode())
    for path in native_files(source, native_sources()):
        digest.update(path.read_bytes())
    for text in (*(f"{name}\0{text}" for name, text in source.generated.items()), *source.abi):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()


def digest_of(folder: Path, headers: Iterable[str]) -> str:
    """A digest of some headers by name and text; "" where one of them is missing."""
    digest = hashlib.sha256()
    try:
        for name in headers:
            digest.update(name.encode() + b"\0" + (folder / name).read_bytes())
    except OSError:
        return ""
    return digest.hexdigest()


def read_manifest(folder: Path) -> tuple[Prebuilt, ...]:
    """All adapters of a folder; none where it is not there."""
    try:
        rows = json.loads((folder / MANIFEST).read_text())
    except FileNotFoundError:
        return ()
    return tuple(Prebuilt(**{**row, "headers": tuple(row["headers"])}) for row in rows)


def write_manifest(rows: Iterable[Prebuilt], folder: Path) -> None:
    """Writes what `read_manifest` reads."""
    text = json.dumps([asdict(row) for row in rows], indent=1)
    (folder / MANIFEST).write_text(text + "\n")
