"""Orders inside of the files of profiles and plans: whole archives, with columns of their own."""

from pathlib import Path
from typing import Any

from pgmo.archive import pack, read_from
from pgmo.archive.fields import Fields
from pgmo.errors import FileError, ProfileError
from pgmo.profiler.ordering.order import COLUMNS, Order

MEMBER = "order"
"""Name of the member."""


def pack_order(order: Order, kind: str, version: int) -> bytes:
    """The bytes of a member.

    Args:
        order: to be kept.
        kind: format of the file that it is kept in.
        version: of that format.
    """
    return pack(kind, version, {name: getattr(order, name) for name in COLUMNS}, {})


def unpack_order(data: Any, where: Path, kind: str, version: int) -> Order:
    """Reads them back, and checks what an order has to be by itself.

    Args:
        data: the member.
        where: what errors call it.
        kind: format of the file that it is in.
        version: of that format.

    Raises:
        FileError: when it is damaged, or contradicts itself.
    """
    archive = read_from(where, data, kind, version, COLUMNS)
    Fields(archive.path, archive.fields).only()
    columns: dict[str, Any] = archive.columns
    try:
        return Order(**columns)
    except ProfileError as error:
        raise FileError(f"{archive.path}: {error}") from error
