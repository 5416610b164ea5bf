"""Orders in the files of profiles and plans. Each is a nested archive of columns."""

from pathlib import Path
from typing import Any

from pgmo.archive import pack, read_from
from pgmo.archive.fields import Fields
from pgmo.errors import FileError, ProfileError
from pgmo.profiler.ordering.order import COLUMNS, Order

MEMBER = "order"
"""Name of the archive member that holds the order."""


def pack_order(order: Order, kind: str, version: int) -> bytes:
    """Return the bytes of the member that holds an order."""
    return pack(kind, version, {name: getattr(order, name) for name in COLUMNS}, {})


def unpack_order(data: Any, where: Path, kind: str, version: int) -> Order:
    """Read an order and check its consistency, but not whether it fits its profile.

    Raises:
        FileError: when the member is damaged or inconsistent.
    """
    archive = read_from(where, data, kind, version, COLUMNS)
    Fields(archive.path, archive.fields).only()
    columns: dict[str, Any] = archive.columns
    try:
        return Order(**columns)
    except ProfileError as error:
        raise FileError(f"{archive.path}: {error}") from error
