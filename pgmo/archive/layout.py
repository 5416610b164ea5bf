"""Format constants that writers and readers of archives share: limits, signatures, the seal."""

import hashlib

MAX_ROWS = 2**27
"""Maximum number of rows. A larger number means a damaged or malicious file."""

MAX_FILE = 2**34
"""Maximum size of a file in bytes (16 GiB)."""

MAX_MEMBERS = 64
MAX_DIRECTORY = 2**16
"""Maximum size of the zip directory in bytes."""

MAGIC = b"PK\x03\x04"
SEAL = b"pgmo-sha256:"
COMMENT = len(SEAL) + 64
TAIL = 22 + COMMENT
"""Size of the zip end record and its comment, the seal, in bytes."""

ANEW = {
    "pgmoprof": "record it again: pgmo run --profile-only SCRIPT",
    "pgmoplan": "plan its profile again: pgmo plan PROFILE",
}
"""Advice in errors about files of an older version, by kind of file."""

RESERVED = ("format", "format_version", "rows", "checksums")
"""Fields of `meta.json` that belong to the container, not to its owner."""


def seal(data: bytes) -> bytes:
    """Return a finished archive with the digest of all preceding bytes at its end."""
    return data[:-64] + hashlib.sha256(memoryview(data)[:-64]).hexdigest().encode()
