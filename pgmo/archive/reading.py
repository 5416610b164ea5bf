"""Strict reader of archives, which checks all content before use."""

import io
import json
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from pgmo.archive.columns import checksum, read_column
from pgmo.archive.fields import REMEDY, Fields, refuse
from pgmo.archive.layout import (
    ANEW,
    COMMENT,
    MAGIC,
    MAX_DIRECTORY,
    MAX_FILE,
    MAX_MEMBERS,
    MAX_ROWS,
    RESERVED,
    SEAL,
    TAIL,
    seal,
)
from pgmo.errors import FileError


@dataclass(frozen=True, eq=False)
class Archive:
    """Content of an archive: columns of shape (rows,), fields and nested archives.

    Args:
        path: path of the file.
        rows: number of entries of each column.
        columns: columns by name.
        fields: fields of `meta.json`, except those of the container.
        nested: bytes of the nested archives by name, for `read_from`.
    """

    path: Path
    rows: int
    columns: dict[str, NDArray[Any]]
    fields: dict[str, object]
    nested: dict[str, bytes]


def read(
    path: str | os.PathLike[str],
    kind: str,
    version: int,
    schema: Mapping[str, np.dtype[Any]],
    nests: bool = False,
) -> Archive:
    """Read and check an archive, which may come from an unknown source.

    Args:
        path: the file.
        kind: required format, "pgmoprof" or "pgmoplan".
        version: required version of the format.
        schema: name and type of each required column.
        nests: whether the archive may contain archives of the same kind.

    Raises:
        FileError: when the file cannot be read, or is truncated, altered or of another kind or
            version. Also when a member is missing, doubled, unknown or invalid.
    """
    path = Path(path)
    return read_from(path, _load(path), kind, version, schema, nests)


def read_from(
    path: Path,
    data: bytes,
    kind: str,
    version: int,
    schema: Mapping[str, np.dtype[Any]],
    nests: bool = False,
) -> Archive:
    """Read an archive from its bytes, with the arguments and errors of `read`."""
    _check_ends(path, data[:4], data[-TAIL:], len(data))
    if seal(data) != data:
        culprit = _damaged(path, data)
        refuse(path, f"was altered: its {len(data)} bytes do not match their seal{culprit}")
    members = _members(path, data)
    meta = _meta(path, members.get("meta.json"))
    if meta.get("format") != kind:
        refuse(
            path, f"is a {str(meta.get('format'))[:40]!r} file, not {kind!r}", "pass the right file"
        )
    head = Fields(path, meta)
    written = head.integer("format_version", 1, 2**31)
    if written != version:
        older = written < version
        writer, remedy = ("an older", ANEW[kind]) if older else ("a newer", "install a newer pgmo")
        what = f"was written by {writer} pgmo: format_version {written}, this pgmo reads {version}"
        refuse(path, what, remedy)
    rows = head.integer("rows", 0, MAX_ROWS)
    checksums = head.texts("checksums")
    suffix = f".{kind}"
    nested = {name for name in members if nests and name.endswith(suffix)}
    expected = {f"{name}.npy" for name in schema} | {"meta.json"} | nested
    for name in sorted(expected ^ members.keys()):
        state = "is missing" if name in expected else "is not part of this format"
        refuse(path, f"member {name[:80]!r} {state}")
    for name in sorted(checksums.keys() ^ schema.keys()):
        state = "is missing" if name in schema else "is not part of this format"
        refuse(path, f"meta.json: the checksum of {name[:80]!r} {state}")
    columns = {}
    for name, dtype in schema.items():
        column = read_column(path, name, members[f"{name}.npy"], dtype, rows)
        if checksums[name] != checksum(column):
            refuse(path, f"member '{name}.npy' does not match its checksum in meta.json")
        columns[name] = column
    fields = {key: value for key, value in meta.items() if key not in RESERVED}
    inner = {name.removesuffix(suffix): bytes(members[name]) for name in sorted(nested)}
    return Archive(path, rows, columns, fields, inner)


def _load(path: Path) -> bytes:
    """Check that the file begins and ends like an archive, and return its bytes."""
    try:
        # Check before opening, because opening a pipe would wait for its writer.
        if not stat.S_ISREG(os.stat(path).st_mode):
            refuse(path, "is not a regular file", "check the path")
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_FILE:
                refuse(path, f"has {size} bytes, the most is {MAX_FILE} bytes", "check the path")
            begin = file.read(4)
            file.seek(max(0, size - TAIL))
            _check_ends(path, begin, file.read(), size)
            file.seek(0)
            return file.read()
    except (OSError, ValueError) as error:  # A path with a zero byte raises ValueError.
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"{path}: cannot be read ({reason}); check the path") from error
    except MemoryError as error:
        raise FileError(f"{path}: {size} bytes do not fit in memory; end other programs") from error


def _check_ends(path: Path, begin: bytes, tail: bytes, size: int) -> None:
    if begin[:1] == b"\x80":
        refuse(path, "begins like a pickle", "import a snapshot with pgmo export --to profile")
    if begin != MAGIC:
        what = "is empty" if size == 0 else "does not begin like a pgmo file"
        refuse(path, what, "check the path, " + REMEDY)
    length = struct.pack("<H", COMMENT)
    if len(tail) != TAIL or tail[:4] != b"PK\x05\x06" or tail[20:34] != length + SEAL:
        refuse(path, "has no seal at its end: it was cut off or altered, or is another zip file")
    entries, directory = struct.unpack_from("<HI", tail, 10)
    if entries > MAX_MEMBERS or directory > MAX_DIRECTORY:
        most = f"the most is {MAX_MEMBERS} members and {MAX_DIRECTORY} bytes"
        refuse(path, f"declares {entries} members in a directory of {directory} bytes, {most}")


def _damaged(path: Path, data: bytes) -> str:
    """Return the probable place of the damage, in words; "" if unknown."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for info in archive.infolist():
                if info.compress_type == 0 and zlib.crc32(_content(path, data, info)) != info.CRC:
                    return f" (member {info.filename[:80]!r})"
    except Exception:
        return " (zip headers)"
    return ""


def _members(path: Path, data: bytes) -> dict[str, memoryview]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
    except Exception as error:  # zipfile raises many types of errors for malicious directories.
        raise FileError(f"{path}: its zip directory is invalid ({error}); {REMEDY}") from error
    members: dict[str, memoryview] = {}
    # Members that share bytes could make a small file expand to a huge one.
    if sum(info.file_size for info in infos) > len(data):
        refuse(path, f"declares members of more bytes than the {len(data)} of the file")
    for info in infos:
        if info.filename in members:
            refuse(path, f"member {info.filename[:80]!r} is there twice")
        members[info.filename] = _content(path, data, info)
    return members


def _content(path: Path, data: bytes, info: zipfile.ZipInfo) -> memoryview:
    """Return the stored bytes of a member, without copying or decompression."""
    name, offset = info.filename[:80], info.header_offset
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
        refuse(path, f"member {name!r} is compressed or encrypted, and pgmo reads neither")
    if offset < 0 or offset + 30 > len(data) or data[offset : offset + 4] != MAGIC:
        refuse(path, f"member {name!r} is declared at byte {offset}, where no member begins")
    begin = offset + 30 + sum(struct.unpack_from("<HH", data, offset + 26))
    if info.file_size != info.compress_size or begin + info.file_size > len(data):
        size = f"{info.file_size} bytes, of which {info.compress_size} are stored at byte {begin}"
        refuse(path, f"member {name!r} declares {size}, in a file of {len(data)} bytes")
    return memoryview(data)[begin : begin + info.file_size]


def _meta(path: Path, content: memoryview | None) -> dict[str, object]:
    if content is None:
        refuse(path, "member 'meta.json' is missing")
    try:
        meta = json.loads(
            bytes(content), parse_constant=_no_constant, object_pairs_hook=_without_duplicates
        )
    except (ValueError, RecursionError, MemoryError) as error:
        raise FileError(
            f"{path}: meta.json cannot be parsed ({str(error)[:120]}); {REMEDY}"
        ) from error
    if not isinstance(meta, dict):
        refuse(path, "meta.json is not an object")
    return meta


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a field is there twice")
    return dict(pairs)
