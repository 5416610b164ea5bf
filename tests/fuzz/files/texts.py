"""Logs of CuPy and RMM, and tables, with changes; some are compressed."""

import gzip
import json
from random import Random
from typing import Any

from tests.fuzz.files import seeds
from tests.fuzz.files.values import NUMBERS, change, number, plain, text

_ODD_CELLS = (
    *("", " ", "(nil)", "0x", "0xzz", "-0x40", "1e9", "1.5", "1_000", "nan", "inf", '"', '"a'),
    *("a\0b", "9" * 30, "9" * 5000, "x" * 140_000, "\u0663", "25:61:61.9999999"),
    *("allocate", "free", "id", "size"),
)


def text_file(random: Random, kind: str) -> bytes:
    """Return a changed file of the kind "cupy", "rmm" or "table"."""
    lines = list({"cupy": seeds.cupy, "rmm": seeds.rmm, "table": seeds.table}[kind]())
    for _ in range(random.choice((0, 1, 1, 2, 5))):
        _line(lines, random, kind)
    if random.random() < 0.01:
        lines += [random.choice(lines)] * random.choice((100, 2000))
    end = random.choice(("\n", "\n", "\n", "\r\n", "\r"))
    data = end.join(lines).encode("utf-8", "surrogatepass")
    if random.random() < 0.1:
        at = random.randrange(len(data) + 1)
        data = data[:at] + bytes([random.randrange(256)]) + data[at + random.randrange(2) :]
    return _compressed(data, random) if random.random() < 0.06 else data


def _compressed(data: bytes, random: Random) -> bytes:
    if random.random() < 0.3:
        data = data * random.choice((2, 30, 300))
    packed = gzip.compress(data, 1, mtime=0)
    if random.random() < 0.3:
        at = random.randrange(len(packed))
        packed = packed[:at] + bytes([random.randrange(256)]) + packed[at + 1 :]
    return packed[: random.randrange(len(packed))] if random.random() < 0.2 else packed


def _line(lines: list[str], random: Random, kind: str) -> None:
    """Change the cells of a line, or move, repeat or remove it."""
    if not lines:
        return
    at = random.randrange(len(lines))
    what = random.randrange(8)
    if what == 0:
        del lines[at]
    elif what == 1:
        lines[at:at] = [lines[at]] * random.choice((1, 2, 40))
    elif what == 2:
        lines.append(lines.pop(at))
    elif kind == "cupy":
        lines[at] = _cupy_line(lines[at], random)
    else:
        cells = lines[at].split(",")
        place = random.randrange(len(cells))
        if what == 3:
            cells[place:place] = [cells[place]] * random.choice((1, 3, 300))
        elif what == 4:
            del cells[place]
        elif what == 5:
            cells[place] = random.choice(_ODD_CELLS)
        else:
            cells[place] = _number(random)
        lines[at] = ",".join(cells)


def _number(random: Random) -> str:
    value = random.choice((number(random), random.choice(NUMBERS), random.randrange(100)))
    return hex(value) if random.random() < 0.3 else str(value)


def _cupy_line(line: str, random: Random) -> str:
    try:
        tree = json.loads(line)
    except (ValueError, RecursionError):
        return text(random)
    if random.random() < 0.2:
        return line[: random.randrange(len(line))] + random.choice(("", "[" * 3000, "1e999}", "}"))
    if isinstance(tree, dict):
        change(tree, random, plain)
    return _dumped(tree)


def _dumped(tree: Any) -> str:
    try:
        return json.dumps(tree, separators=(",", ":"))
    except (ValueError, RecursionError):  # a change may have made it contain itself
        return "{}"
