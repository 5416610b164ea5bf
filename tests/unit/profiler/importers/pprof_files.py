"""Writes profiles in pprof's format, as JAX's memory profiles are."""

from collections.abc import Iterable, Mapping

TYPES = (("allocations", "count"), ("space", "bytes"))

Frame = tuple[str, str, int]
"""Name, file and line of a call."""


def number(value: int) -> bytes:
    """As a varint."""
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(key: int, value: int | bytes) -> bytes:
    """A field of a message: a number, or what has a length."""
    if isinstance(value, int):
        return number(key << 3) + number(value)
    return number(key << 3 | 2) + number(len(value)) + value


def pprof(
    samples: Iterable[tuple[Iterable[Frame], Iterable[int], Mapping[str, str]]],
    types: Iterable[tuple[str, str]] = TYPES,
    rest: bytes = b"",
) -> bytes:
    """A file of (stack, values, labels), with a location for each frame."""
    texts: list[str] = [""]
    frames: list[Frame] = []

    def text(value: str) -> int:
        if value not in texts:
            texts.append(value)
        return texts.index(value)

    def location(frame: Frame) -> int:
        if frame not in frames:
            frames.append(frame)
        return frames.index(frame) + 1

    out = b"".join(field(1, field(1, text(a)) + field(2, text(b))) for a, b in types)
    for stack, values, labels in samples:
        own = field(1, b"".join(number(location(frame)) for frame in stack))
        own += field(2, b"".join(number(value) for value in values))
        own += b"".join(
            field(3, field(1, text(name)) + field(2, text(value))) for name, value in labels.items()
        )
        out += field(2, own)
    for at, (name, file, line) in enumerate(frames, 1):
        out += field(5, field(1, at) + field(2, text(name)) + field(4, text(file)))
        out += field(4, field(1, at) + field(4, field(1, at) + field(2, line)))
    return out + b"".join(field(6, own.encode("utf-8", "surrogatepass")) for own in texts) + rest
