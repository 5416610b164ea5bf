"""What is in a file, unpacked if it was compressed."""

import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path

from pgmo.errors import FileError

_MOST_UNPACKED = 2**35
_MOST_RATIO = 50  # text of traces shrinks to a twentieth; zlib holds what it unpacks twice
_LITTLE = 2**20
_GZIP = b"\x1f\x8b"


def contents(path: Path, most: int | None = None) -> bytes:
    """Reads a file, or its beginning.

    Args:
        path: the file; it may be compressed with gzip.
        most: bytes to read, None for all.

    Raises:
        FileError: when it cannot be read, is no whole gzip file, or unpacks to more than fifty
            times its size.
    """
    try:
        # Asked before it is opened: to open a pipe would wait for its writer.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise FileError(f"{path}: is not a regular file; check the path")
        with open(path, "rb") as file:
            data = file.read(-1 if most is None else most)
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"{path}: cannot be read ({reason}); check the path") from error
    except MemoryError as error:
        raise FileError(f"{path}: does not fit in memory; close something") from error
    return _unpacked(path, data, most) if data.startswith(_GZIP) else data


def text_of(path: Path) -> str:
    """Reads a text file in UTF-8.

    Raises:
        FileError: as `contents`, and when it is no text.
    """
    try:
        return contents(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(
            f"{path}: is not text (byte {error.start} is 0x{error.object[error.start]:02x}); give "
            "a file in UTF-8"
        ) from error


def _unpacked(path: Path, data: bytes, most: int | None) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    limit = min(_MOST_UNPACKED, max(_LITTLE, _MOST_RATIO * len(data)))
    try:
        unpacked = unpacker.decompress(data, limit if most is None else most)
    except zlib.error as error:
        raise FileError(f"{path}: is a damaged gzip file ({error}); save it again") from error
    if most is None and len(unpacked) == limit:
        raise FileError(
            f"{path}: is a gzip file of {len(data)} bytes that unpacks to more than {limit} bytes; "
            "if you trust it, unpack it first"
        )
    if most is None and not unpacker.eof:
        raise FileError(f"{path}: is a gzip file that is cut off; save it again")
    return unpacked


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a text file in UTF-8 without what ends them, one at a time.

    Raises:
        FileError: as `text_of`.
    """
    text = text_of(path)
    begin = 0
    while begin < len(text):
        end = text.find("\n", begin)
        end = len(text) if end < 0 else end
        yield text[begin:end].removesuffix("\r")
        begin = end + 1
