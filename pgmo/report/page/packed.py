"""Compression of columns of whole numbers, for pages with embedded data.

    numbers --(differences)--> zigzag --> 7 bits a byte, the lowest first --> deflate --> base64
    0 -1 1 -2 ...              0 1 2 3

Blocks of a training loop repeat a few sizes and have short lifetimes. So most numbers take one or
two bytes before compression. `assets/js/decode.js` decodes the columns.
"""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, eq=False)
class Column:
    """A named column of whole numbers, shape (n,).

    Args:
        name: name of the column.
        values: whole numbers from -1 to 2**53 - 1, JavaScript's largest safe integer. -1: "none".
        delta: whether to store differences, which are small if adjacent values are similar.
    """

    name: str
    values: NDArray[np.int64]
    delta: bool = False

    @property
    def unit(self) -> int:
        """Largest number that divides all values except -1; 1 if no value is positive."""
        known = self.values[self.values > 0]
        return int(np.gcd.reduce(known)) if known.size else 1

    def encoded(self) -> bytes:
        """Return the values in their unit, as bytes."""
        small = np.where(self.values < 0, -1, self.values // self.unit)
        return encode_integers(np.diff(small, prepend=0) if self.delta else small)


def encode_integers(values: ArrayLike) -> bytes:
    """Encode whole numbers in bytes: zigzag, then base 128, with the lowest digit first."""
    signed = np.asarray(values, np.int64)
    zigzag = ((signed << 1) ^ (signed >> 63)).astype(np.uint64)
    digits = np.ones(len(zigzag), np.int64)
    for count in range(1, 10):
        digits += zigzag >> np.uint64(7 * count) > 0
    first = np.cumsum(digits) - digits
    out = np.zeros(int(digits.sum()), np.uint8)
    for place in range(int(digits.max(initial=0))):
        has = digits > place
        digit = (zigzag[has] >> np.uint64(7 * place)) & np.uint64(127)
        more = np.where(digits[has] > place + 1, 128, 0)
        out[first[has] + place] = digit.astype(np.uint8) | more.astype(np.uint8)
    return out.tobytes()


def pack(header: Mapping[str, Any], columns: Sequence[Column]) -> str:
    """Pack a header and columns into one line of base64, which contains no HTML tags.

    Before compression, the text has three parts: the header's length in four bytes (lowest first),
    the header as JSON with a description of the columns as "columns", and the bytes of the columns.
    """
    parts = [column.encoded() for column in columns]
    described = [
        {"name": c.name, "length": len(c.values), "unit": c.unit, "delta": c.delta} for c in columns
    ]
    text = json.dumps({**header, "columns": described}, separators=(",", ":"), allow_nan=False)
    head = text.encode()
    body = b"".join([len(head).to_bytes(4, "little"), head, *parts])
    return base64.b64encode(zlib.compress(body, 9)).decode("ascii")
