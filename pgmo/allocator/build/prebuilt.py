"""Prebuilt adapters in pgmo's wheel, for machines without a compiler.

    pgmo/_prebuilt/
          manifest.json      digests of the sources of each adapter
        torch_cpu-2.13.0-01234567.so

A prebuilt adapter equals a compiled one if three inputs are equal: pgmo's sources with their
generated files, the settings of the binary interface, and the text of every framework header that
it includes. Version numbers are not compared: another build of PyTorch with the same headers
matches, and a build with patched headers does not. Without a match, the adapter is compiled.
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
"""Environment variable; with 0, prebuilt adapters are ignored and adapters are compiled."""


@dataclass(frozen=True)
class Prebuilt:
    """Prebuilt adapter: its file, framework and headers, and digests of all its inputs."""

    file: str
    made_from: str
    headers: tuple[str, ...]
    digest: str
    what: str


def find_prebuilt(source: "AdapterSource", folder: Path | None = None) -> Path | None:
    """Return the path of a prebuilt adapter that equals a compiled one; None if there is none."""
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
    """Return a digest of pgmo's sources for an adapter and of the adapter's binary interface."""
    from pgmo.allocator.build.compile import native_files, native_sources

    digest = hashlib.sha256(source.name.encode())
    for path in native_files(source, native_sources()):
        digest.update(path.read_bytes())
    for text in (*(f"{name}\0{text}" for name, text in source.generated.items()), *source.abi):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()


def digest_of(folder: Path, headers: Iterable[str]) -> str:
    """Return a digest of the names and texts of headers; "" if a header is missing."""
    digest = hashlib.sha256()
    try:
        for name in headers:
            digest.update(name.encode() + b"\0" + (folder / name).read_bytes())
    except OSError:
        return ""
    return digest.hexdigest()


def read_manifest(folder: Path) -> tuple[Prebuilt, ...]:
    """Return all prebuilt adapters of a folder; none if it has no manifest."""
    try:
        rows = json.loads((folder / MANIFEST).read_text())
    except FileNotFoundError:
        return ()
    return tuple(Prebuilt(**{**row, "headers": tuple(row["headers"])}) for row in rows)


def write_manifest(rows: Iterable[Prebuilt], folder: Path) -> None:
    """Write the manifest that `read_manifest` reads."""
    text = json.dumps([asdict(row) for row in rows], indent=1)
    (folder / MANIFEST).write_text(text + "\n")
