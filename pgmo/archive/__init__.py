"""Container format of `*.pgmoprof` and `*.pgmoplan`: columns in a sealed zip archive.

    +--------------------------+
    | size.npy   (stored)      |  one member per column, readable with numpy.load
    | start.npy  (stored)      |
    | ...                      |
    | meta.json  (stored)      |  format, version, rows, checksums, fields of the profile or plan
    | b.pgmoplan (stored)      |  optional: nested archives of the same kind
    | zip directory            |
    | "pgmo-sha256:" + digest  |  zip comment: SHA-256 of every byte before the digest
    +--------------------------+

The checksums of the zip format cover no headers. The seal covers all bytes, so readers detect a
flipped bit before parsing. The seal guards against accidents, not malice: anyone who can write the
file can seal it again. So readers do not trust sealed content: they unpickle, evaluate and
decompress nothing, and check declared sizes against the file.
"""

from pgmo.archive.layout import seal
from pgmo.archive.reading import Archive, read, read_from
from pgmo.archive.writing import pack, write

__all__ = ["Archive", "pack", "read", "read_from", "seal", "write"]
