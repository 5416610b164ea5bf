"""Messages between clients and the broker: one JSON object per line.

client   hello, ask, withdraw, give, released, bye, status
broker   welcome, turn, crowded, pass, status, refused

Functions raise `ShareError` for an invalid message.
"""

import json
from collections.abc import Mapping
from typing import Any

from pgmo.errors import ShareError

VERSION = 1

LIMIT = 1 << 16
"""Maximum length of an incomplete line, in bytes. A longer line does not come from pgmo."""

MOST_PRIORITY = 8
"""Largest absolute priority. Each step doubles a client's share of the time on the card."""

Message = dict[str, Any]


def encode(kind: str, fields: Mapping[str, Any]) -> bytes:
    """Encode a message as a line of JSON."""
    return json.dumps({"kind": kind, **fields}, separators=(",", ":")).encode() + b"\n"


class Lines:
    """Decoder of messages from a byte stream."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Message]:
        """Add received bytes. Return the messages that are now complete."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LIMIT:
            raise ShareError(f"a message of more than {LIMIT} bytes")
        return [_decode(line) for line in whole]


def _decode(line: bytes) -> Message:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ShareError(f"not a message: {line[:80]!r}") from error
    if not isinstance(message, dict) or not isinstance(message.get("kind"), str):
        raise ShareError(f"not a message: {line[:80]!r}")
    return message


def size(message: Message, name: str) -> int:
    """Return a field that is a whole number from 0 on, such as a number of bytes."""
    value = message.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 62:
        raise ShareError(f"{message['kind']}: {name}={value!r} is not a whole number from 0 on")
    return value


def text(message: Message, name: str) -> str:
    """Return a field that is a name, cut to 200 characters."""
    value = message.get(name)
    if not isinstance(value, str) or not value:
        raise ShareError(f"{message['kind']}: {name}={value!r} is not a name")
    return value[:200]


def priority(message: Message) -> int:
    """Return the priority of a message; default 0."""
    value = message.get("priority", 0)
    good = isinstance(value, int) and abs(value) <= MOST_PRIORITY
    if not good:
        raise ShareError(
            f"priority is {value!r}; give a whole number from -{MOST_PRIORITY} to {MOST_PRIORITY}"
        )
    return int(value)
