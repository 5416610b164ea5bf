"""Reads profiles in pprof's format, as far as memory goes: how much each stack of calls holds.

    string_table   "", "space", "bytes", "kind", "buffer", "zeros", "train.py"
    function 1     zeros, train.py
    location 1     function 1, line 6
    sample         locations 1 ...; values 1, 262144; label kind = buffer

It is a protocol buffer. To read these few fields takes less than a library for all of them.

Source: profile.proto in pprof's repository; Protocol Buffers' notes on encoding.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from pgmo.profiler.importers.checked_values import printable
from pgmo.profiler.importers.frames import Frame

BEGINNING = re.compile(rb"\n[\x02-\x16]\x08")
"""What such a file begins with, once it is unpacked: the type of its first values."""

_MOST_TEXT = 1024  # characters of a name
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5


class Sample(NamedTuple):
    """What one stack holds.

    Args:
        frames: its calls, innermost first.
        values: one for each of the profile's types.
        labels: texts by name, such as {"kind": "buffer"}.
    """

    frames: tuple[Frame, ...]
    values: tuple[int, ...]
    labels: dict[str, str]


@dataclass(frozen=True)
class Pprof:
    """A profile: what its values are, such as ("space", "bytes"), and its samples."""

    types: tuple[tuple[str, str], ...]
    samples: tuple[Sample, ...]


def parse_pprof(data: bytes) -> Pprof:
    r"""Takes a profile apart.

    Raises:
        ValueError: when it is cut off, refers to a text that is not there, or would take far more
            memory than the file.

    Example:
        >>> parse_pprof(b"\n\x04\x08\x01\x10\x02" b"2\x00" b"2\x05space" b"2\x05bytes")
        Pprof(types=(('space', 'bytes'),), samples=())
    """
    parts: dict[int, list[bytes]] = {}
    for number, value in _fields(data):
        if isinstance(value, bytes):
            parts.setdefault(number, []).append(value)
    strings = [printable(text[:_MOST_TEXT].decode("utf-8", "replace")) for text in parts.get(6, [])]

    def text(at: int) -> str:
        if not 0 <= at < len(strings):
            raise ValueError(f"refers to text {at} of {len(strings)}")
        return strings[at]

    functions = {}
    for part in parts.get(5, []):
        own = _numbers(part)
        functions[own.get(1, 0)] = text(own.get(2, 0)), text(own.get(4, 0))
    locations = {}
    for part in parts.get(4, []):
        key, frames = 0, []
        for number, value in _fields(part):
            if number == 1 and isinstance(value, int):
                key = value
            elif number == 4 and isinstance(value, bytes):  # several where calls were inlined
                line = _numbers(value)
                name, file = functions.get(line.get(1, 0), ("", ""))
                frames.append(Frame(name, file, line.get(2, 0)))
        locations[key] = tuple(frames)
    samples = []
    room = 4 * len(data)  # frames of all stacks: a location of many may be referred to often
    for part in parts.get(2, []):
        stack: list[Frame] = []
        values: list[int] = []
        labels = {}
        for number, value in _fields(part):
            if number == 1:
                for key in _packed(value):
                    calls = locations.get(key, ())
                    room -= len(calls)
                    if room < 0:
                        raise ValueError("has more calls than a file of its size can tell of")
                    stack += calls
            elif number == 2:
                values += _packed(value)
            elif number == 3 and isinstance(value, bytes):
                label = _numbers(value)
                labels[text(label.get(1, 0))] = text(label.get(2, 0))
        samples.append(Sample(tuple(stack), tuple(values), labels))
    types = tuple(
        (text(own.get(1, 0)), text(own.get(2, 0))) for own in map(_numbers, parts.get(1, []))
    )
    return Pprof(types, tuple(samples))


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers and values of a message's fields, in order."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            number, at = _varint(data, at)
            yield key >> 3, number
            continue
        if kind == _BYTES:
            length, at = _varint(data, at)
        elif kind in (_EIGHT, _FOUR):
            length = 8 if kind == _EIGHT else 4
        else:
            raise ValueError(f"has a field of type {kind}, which there is not")
        if length > len(data) - at:
            raise ValueError("is cut off")
        if kind == _BYTES:
            yield key >> 3, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    value = 0
    for place in range(10):
        if at + place >= len(data):
            raise ValueError("is cut off")
        byte = data[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value & (2**64 - 1), at + place + 1
    raise ValueError("has a number of more than 64 bits")


def _numbers(message: bytes) -> dict[int, int]:
    """The fields of a message that are numbers; of repeated ones the last."""
    return {number: value for number, value in _fields(message) if isinstance(value, int)}


def _packed(value: int | bytes) -> list[int]:
    """A number, or several that are written as one field."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = _varint(value, at)
        found.append(number)
    return found
