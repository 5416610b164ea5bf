"""Writer of sealed archives with columns, fields and nested archives."""

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgmo.archive.columns import checksum, write_column
from pgmo.archive.layout import MAX_FILE, MAX_MEMBERS, MAX_ROWS, SEAL
from pgmo.errors import FileError
from pgmo.files.replacement import replace_file


def write(
    path: str | os.PathLike[str],
    kind: str,
    version: int,
    columns: Mapping[str, NDArray[Any]],
    fields: Mapping[str, object],
    nested: Mapping[str, bytes] | None = None,
) -> None:
    """Write a sealed archive atomically: readers find the old file or the whole new file.

    Equal content gives equal bytes, because each member has the same fixed date.

    Args:
        path: file to write; replaced if it exists.
        kind: `"pgmoprof"` or `"pgmoplan"`.
        version: version of the format.
        columns: flat arrays of equal length.
        fields: fields for `meta.json`, with JSON values.
        nested: archives of the same kind by name, as bytes from `pack`.

    Raises:
        FileError, ValueError: as `pack`; FileError also when the file cannot be written.
    """
    replace_file(Path(path), pack(kind, version, columns, fields, nested))


def pack(
    kind: str,
    version: int,
    columns: Mapping[str, NDArray[Any]],
    fields: Mapping[str, object],
    nested: Mapping[str, bytes] | None = None,
) -> bytes:
    """Return the bytes that `write` writes. The arguments are those of `write`.

    Raises:
        FileError: when there are too many nested archives, rows or bytes for a file.
        ValueError: when columns are not flat or differ in length, or a field is NaN or infinite.
    """
    nested = nested or {}
    if len(columns) + len(nested) >= MAX_MEMBERS:
        most = MAX_MEMBERS - len(columns) - 1
        raise FileError(
            f"{len(nested)} inner archives, more than {most} in a file; save fewer plans"
        )
    rows = {len(column) for column in columns.values()}
    if len(rows) > 1 or any(column.ndim != 1 for column in columns.values()):
        raise ValueError(f"columns must be flat and of one length; lengths are {sorted(rows)}")
    if max(rows, default=0) > MAX_ROWS:
        raise FileError(f"{max(rows)} rows, more than the {MAX_ROWS} of a file; record less")
    flat = {
        name: np.ascontiguousarray(column, dtype=column.dtype.newbyteorder("<"))
        for name, column in columns.items()
    }
    meta: dict[str, object] = {
        "format": kind,
        "format_version": version,
        "rows": rows.pop() if rows else 0,
        "checksums": {name: checksum(column) for name, column in flat.items()},
        **fields,
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, column in flat.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), write_column(column))
        text = json.dumps(meta, indent=1, allow_nan=False, ensure_ascii=True)
        archive.writestr(zipfile.ZipInfo("meta.json"), text)
        for name, inner in nested.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.{kind}"), inner)
        archive.comment = SEAL + b"0" * 64
    # Seal in place, because a trace may take most of the memory, and `seal` makes a copy.
    with buffer.getbuffer() as view:
        if len(view) > MAX_FILE:
            raise FileError(f"{len(view)} bytes, more than the {MAX_FILE} of a file; record less")
        view[-64:] = hashlib.sha256(view[:-64]).hexdigest().encode()
    return buffer.getvalue()
