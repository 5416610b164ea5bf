"""The container under `*.pgmoprof` and `*.pgmoplan`: columns in a zip archive, sealed.

    +--------------------------+
    | size.npy   (stored)      |  one member a column, readable with numpy.load
    | start.npy  (stored)      |
    | ...                      |
    | meta.json  (stored)      |  format, version, rows, a checksum per column, owner's fields
    | b.pgmoplan (stored)      |  where the format has that: whole archives of the same kind
    | zip directory            |
    | "pgmo-sha256:" + digest  |  zip comment: SHA-256 of every byte before the digest
    +--------------------------+

The CRC of a zip archive leaves most header bytes uncovered; the seal covers them all, so that a bit
flipped anywhere is noticed before anything is parsed. It guards against accidents, not malice:
whoever can write the file can seal it again. So what lies behind the seal is not trusted either:
nothing is unpickled, evaluated or decompressed, and no size is believed that the file has not.
"""

from pgmo.archive.layout import seal
from pgmo.archive.reading import Archive, read, read_from
from pgmo.archive.writing import pack, write

__all__ = ["Archive", "pack", "read", "read_from", "seal", "write"]
