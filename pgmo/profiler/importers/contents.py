"""Reading of files, with decompression of gzip."""

import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path

from pgmo.errors import FileError

_MOST_UNPACKED = 2**35
_MOST_RATIO = 50  # Traces compress to 1/20. zlib holds its output twice.
_LITTLE = 2**20  # Bytes that a file of any size may unpack to.
_GZIP = b"\x1f\x8b"


def contents(path: Path, most: int | None = None) -> bytes:
    """Return all bytes of a file, or at most `most`, decompressed if it is a gzip file.

    Raises:
        FileError: when the file is not regular, cannot be read, or is a damaged gzip file. Without
            `most`, also for an incomplete gzip file, and for one that decompresses to fifty times
            its size or more. This limit is at least 1 MiB and at most 32 GiB.
    """
    try:
        # Check before opening, because opening a pipe would wait for its writer.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise FileError(f"{path}: is not a regular file; check the path")
        with open(path, "rb") as file:
            data = file.read(-1 if most is None else most)
    except (OSError, ValueError) as error:  # A path with a zero byte raises ValueError.
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"{path}: cannot be read ({reason}); check the path") from error
    except MemoryError as error:
        raise FileError(f"{path}: does not fit in memory; end other programs") from error
    return _unpacked(path, data, most) if data.startswith(_GZIP) else data


def text_of(path: Path) -> str:
    """Read a text file in UTF-8. Raises FileError like `contents`, and for other encodings."""
    try:
        return contents(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(
            f"{path}: is not UTF-8 text (byte {error.start} is 0x{error.object[error.start]:02x}); "
            "convert the file to UTF-8"
        ) from error


def _unpacked(path: Path, data: bytes, most: int | None) -> bytes:
    limit = min(_MOST_UNPACKED, max(_LITTLE, _MOST_RATIO * len(data)))
    unpacked, rest = b"", data
    while rest.startswith(_GZIP):  # a file may have several members, one after the other
        unpacker = zlib.decompressobj(wbits=31)
        left = (limit if most is None else most) - len(unpacked)
        if left <= 0:
            break
        try:
            unpacked += unpacker.decompress(rest, left)
        except zlib.error as error:
            raise FileError(f"{path}: is a damaged gzip file ({error}); save it again") from error
        rest = unpacker.unused_data
    if most is None and len(unpacked) == limit:
        raise FileError(
            f"{path}: is a gzip file of {len(data)} bytes that unpacks to {limit} bytes or more; "
            "if you trust it, unpack it first"
        )
    if most is None and not unpacker.eof:
        raise FileError(f"{path}: is a gzip file that is cut off; save it again")
    return unpacked


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of a text file in UTF-8, without line ends."""
    text = text_of(path)
    begin = 0
    while begin < len(text):
        end = text.find("\n", begin)
        end = len(text) if end < 0 else end
        yield text[begin:end].removesuffix("\r")
        begin = end + 1
