"""Columns as members of an archive, in NumPy's format 1.0. Reading rejects all other formats."""

import hashlib
import io
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgmo.archive.fields import refuse

# The header that numpy writes for a flat array. It is only matched, never evaluated.
_HEADER = re.compile(
    r"\{'descr': '([<|][a-z]\d)', 'fortran_order': False, 'shape': \((\d{1,18}),\), \} *\n"
)


def checksum(column: NDArray[Any]) -> str:
    """Return the SHA-256 (hex) of a column's values."""
    return hashlib.sha256(column.view(np.uint8).data if column.size else b"").hexdigest()


def write_column(column: NDArray[Any]) -> memoryview:
    """Return the bytes of an archive member for a contiguous, flat, little-endian column."""
    member = io.BytesIO()
    np.lib.format.write_array(member, column, version=(1, 0), allow_pickle=False)
    return member.getbuffer()


def read_column(
    path: Path, name: str, content: memoryview, dtype: np.dtype[Any], rows: int
) -> NDArray[Any]:
    """Read a column of `rows` entries without evaluating or unpickling anything.

    Raises:
        FileError: when the member has another format, type or length, or a Boolean is not 0 or 1.
    """
    where = f"member '{name}.npy'"
    if len(content) < 10 or bytes(content[:8]) != b"\x93NUMPY\x01\x00":
        refuse(path, f"{where} is not an array in numpy's format 1.0")
    (length,) = struct.unpack_from("<H", content, 8)
    header = _HEADER.fullmatch(bytes(content[10 : 10 + length]).decode("latin-1"))
    if header is None:
        refuse(path, f"{where} does not begin with numpy's header of a flat, little-endian array")
    wanted = dtype.newbyteorder("<").str
    if header[1] != wanted:
        refuse(path, f"{where} has type {header[1]!r}, must be {wanted!r}")
    if int(header[2]) != rows:
        refuse(path, f"{where} has {header[2]} rows, meta.json says {rows}")
    body = content[10 + length :]
    if len(body) != rows * dtype.itemsize:
        refuse(path, f"{where} has {len(body)} bytes for {rows} rows of {dtype.itemsize} bytes")
    if dtype.kind == "b":
        odd = np.flatnonzero(np.frombuffer(body, np.uint8) > 1)
        if odd.size:
            refuse(path, f"{where} has a value that is neither 0 nor 1 in row {odd[0]}")
    return np.frombuffer(body, dtype.newbyteorder("<")).astype(dtype)
