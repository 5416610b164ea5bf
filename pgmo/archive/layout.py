"""Format constants that writers and readers of archives share: limits, signatures, the seal."""

import hashlib

MAX_ROWS = 2**27
"""Maximum number of rows. Readers and writers reject more."""

MAX_FILE = 2**34
"""Maximum size of a file in bytes (16 GiB). Readers and writers reject larger files."""

MAX_MEMBERS = 64
MAX_DIRECTORY = 2**16
"""Maximum size of the zip directory in bytes. Readers reject larger directories."""

MAGIC = b"PK\x03\x04"
SEAL = b"pgmo-sha256:"
COMMENT = len(SEAL) + 64
TAIL = 22 + COMMENT
"""Size of the zip end record and its comment, the seal, in bytes."""

ANEW = {
    "pgmoprof": "record the profile again: pgmo run --profile-only SCRIPT",
    "pgmoplan": "plan the profile again: pgmo plan PROFILE",
}
"""Advice in errors about files of an older version, by kind of file."""

RESERVED = ("format", "format_version", "rows", "checksums")
"""Fields of `meta.json` that belong to the container, not to the profile or plan."""


def seal(data: bytes) -> bytes:
    """Return an archive whose last 64 bytes are replaced by the digest of all preceding bytes."""
    return data[:-64] + hashlib.sha256(memoryview(data)[:-64]).hexdigest().encode()
