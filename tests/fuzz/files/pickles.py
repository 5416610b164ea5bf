"""Snapshots with changed values, instructions and bytes."""

import pickle
import pickletools
import struct
from random import Random
from typing import Any

from tests.fuzz.files import seeds
from tests.fuzz.files.values import change, number, plain


def snapshot_file(random: Random) -> bytes:
    """Return the pickle of a changed snapshot, or a run of instructions."""
    kind = random.random()
    if kind < 0.03:
        return _run(random)
    data = _values(random)
    if kind > 0.5:
        data = _instructions(data, random)
    for _ in range(random.choice((0, 0, 0, 0, 1, 3))):
        at = random.randrange(len(data))
        data = data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]
    if random.random() < 0.02:
        data = data[: random.randrange(len(data))]
    return data


def _values(random: Random) -> bytes:
    """Return the pickle of a snapshot with changed values."""
    saved: Any = seeds.snapshots(random.randrange(6))
    for _ in range(random.choice((0, 1, 1, 2, 5))):
        change(saved, random, _hostile)
    protocol = random.choice((2, 3, 4, 4, 4, 5))
    try:
        return pickle.dumps(saved, protocol)
    except RecursionError:
        return pickle.dumps([], protocol)


def _hostile(random: Random) -> Any:
    """Return a value of a wrong type, or one whose copy would be too large for memory."""
    kind = random.randrange(9)
    if kind == 0:
        value: Any = ()
        for _ in range(60):
            value = (value, value)
        return value
    if kind == 1:
        value = []
        for _ in range(random.choice((5, 70, 150))):
            value = [value]
        return value
    if kind == 2:
        value = []
        value.append(value)
        return value
    if kind == 3:
        return bytes(random.randrange(40))
    if kind == 4:
        return {number(random): plain(random), "action": "alloc"}
    if kind == 5:
        return random.choice((1.5, (0, 1), ((),), "alloc", "segment_map", "inactive"))
    return plain(random)


def _text(value: str) -> bytes:
    encoded = value.encode()
    return b"\x8c" + bytes([len(encoded)]) + encoded


_DOUBLING = b")\x94" + b"".join(b"h%c" % at * 2 + b"\x86\x94" for at in range(40))
_PIECES = (
    *(bytes([code]) for code in b"}])(N\x88\x94aesut\x85\x86\x87012Rb\x93\x81Q."),
    *(b"cos\nsystem\n", b"K\x01", b"M\xff\xff", b"J\xff\xff\xff\xff", b"C\x01a", b"I7\n", b"F1\n"),
    *(b"h\x00", b"h\x05", b"h\xff", b"j\x00\x00\x00\x00", b"q\x00", b"r\xff\xff\xff\xff"),
    *(b"\x8a\x00", b"\x8a\x08" + b"\xff" * 7 + b"\x7f", b"\x8a\x20" + b"\x7f" * 32),
    *(b"G" + struct.pack(">d", float("inf")), b"\x8c\x02\xed\xa0", b"\x8d" + b"\xff" * 8),
    *map(_text, ("action", "state", "filename", "segments", "device_traces", "host_traces")),
    *(_text("alloc"), b"\x95" + b"\x00" * 8, b"}h\x00K\x01s", b"](h\x00h\x00e", b"]\x94h\x00a"),
    b"}(" + b")" + b"\x85" * 50 + b"K\x01u",
)


def _instructions(data: bytes, random: Random) -> bytes:
    """Return a pickle with instructions removed, repeated, exchanged and inserted."""
    try:
        places = [at for _, _, at in pickletools.genops(data)]
    except ValueError:
        return data
    steps = [data[a:b] for a, b in zip(places, [*places[1:], len(data)], strict=True)]
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.randrange(1, len(steps))
        what = random.randrange(7)
        if what == 0:
            del steps[at]
        elif what == 1:
            steps[at:at] = steps[at : at + random.choice((1, 2, 20))] * random.choice((1, 3))
        elif what == 2:
            other = random.randrange(1, len(steps))
            steps[at], steps[other] = steps[other], steps[at]
        elif what == 3:
            steps[at:at] = [_DOUBLING, b"}(h\x28K\x01u" if random.random() < 0.5 else b"h\x28"]
        elif what == 4:
            steps[at] = random.choice(_PIECES)
        else:
            steps[at:at] = [random.choice(_PIECES)] * random.choice((1, 1, 2, 300))
        if len(steps) < 3:
            break
    return b"".join(steps)


def _run(random: Random) -> bytes:
    """Return a pickle that repeats a few instructions thousands of times, to show their cost."""
    pieces = b"".join(random.choice(_PIECES) for _ in range(random.choice((1, 1, 2, 4))))
    count = random.choice((300, 3000, 30_000))
    begin = random.choice((b"\x80\x04", b"\x80\x04](", b"\x80\x04}(" + _text("segments")))
    end = random.choice((b".", b"e.", b"u."))
    return begin + b"N\x94" * random.choice((0, 40)) + pieces * (count // len(pieces) + 1) + end
