"""What writers and readers of archives have to agree on: limits, marks, and the seal."""

import hashlib

MAX_ROWS = 2**27
"""More blocks than any iteration has: a count above it is a damaged or hostile file."""

MAX_FILE = 2**34
"""The most bytes of a file."""

MAX_MEMBERS = 64
MAX_DIRECTORY = 2**16
"""The most bytes of the zip directory."""

MAGIC = b"PK\x03\x04"
SEAL = b"pgmo-sha256:"
COMMENT = len(SEAL) + 64
TAIL = 22 + COMMENT
"""Bytes of the zip end record and its comment, which is the seal."""

ANEW = {
    "pgmoprof": "record it again: pgmo run --profile-only SCRIPT",
    "pgmoplan": "plan its profile again: pgmo plan PROFILE",
}
"""How to make a file of each kind again, for errors about files of an older version."""

RESERVED = ("format", "format_version", "rows", "checksums")
"""The container's own fields of `meta.json`."""


def seal(data: bytes) -> bytes:
    """Puts the digest of all that precedes it at the end of a finished archive.

    Example:
        >>> seal(seal(b"x" * 100)) == seal(b"x" * 100)
        True
    """
    return data[:-64] + hashlib.sha256(memoryview(data)[:-64]).hexdigest().encode()
