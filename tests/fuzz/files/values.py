"""Values of wrong types, out of range, or of absurd size, which replace others."""

from random import Random
from typing import Any

NUMBERS: tuple[int, ...] = (
    *(-1, 0, 1, 7, 127, 128, 255, 256, 511, 512, 4096, 2**15, 2**15 + 1, 2**20, 2**27, 2**27 + 1),
    *(2**31 - 1, 2**31, 2**32, 2**48, 2**48 + 1, 2**53, 2**60, 2**61, 2**62 - 1, 2**62, 2**62 + 1),
    *(2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**100, -2, -(2**31), -(2**62), -(2**63), -(2**64)),
)
FLOATS = (0.0, -0.0, 1.5, -1.0, 1e-300, 1e15, 1e18, 4.6e18, 1e300, float("inf"), -float("inf"))
TEXTS = ("", "0", "-1", "0x40", "N/A", "\ud800", "\x1b[2J\x00", "é\u2028\u202e", "%s{0}", "x" * 300)


def number(random: Random) -> int:
    """Return an integer, mostly near a limit."""
    if random.random() < 0.2:
        return random.randrange(-(2**66), 2**66)
    return random.choice(NUMBERS) + random.choice((0, 0, 0, 1, -1))


def text(random: Random) -> str:
    """Return a text that is unusual in one way."""
    return random.choice(TEXTS) * random.choice((1, 1, 1, 2, 50))


def plain(random: Random) -> Any:
    """Return a value that JSON can represent, too."""
    kind = random.randrange(7)
    if kind == 0:
        return random.choice((None, True, False))
    if kind == 1:
        return random.choice((*FLOATS, float("nan")))
    if kind == 2:
        return text(random)
    if kind == 3:
        return random.choice(([], {}, [[]], {"": {}}, [0, "a"], [[1, 2], None], {"a": [1]}))
    if kind == 4:
        return [number(random) for _ in range(random.choice((1, 3, 40)))]
    return number(random)


def paths(value: Any, most: int = 5000) -> list[tuple[Any, Any]]:
    """Return pairs of a container within a value and a key or an index, about `most` at most."""
    found: list[tuple[Any, Any]] = []
    todo = [value]
    seen: set[int] = set()
    while todo and len(found) < most:
        top = todo.pop()
        if id(top) in seen:
            continue
        seen.add(id(top))
        keys = list(top) if isinstance(top, dict) else range(len(top))
        for key in keys:
            found.append((top, key))
            if isinstance(top[key], dict | list):
                todo.append(top[key])
    return found


def change(value: Any, random: Random, other: Any) -> None:
    """Replace, remove, repeat or move one value of a tree.

    Args:
        value: tree of dictionaries and lists, which is changed in place.
        random: source of all choices.
        other: makes a new value.
    """
    found = paths(value)
    if not found:
        return
    where, key = random.choice(found)
    what = random.randrange(8)
    if what < 4:
        where[key] = other(random)
    elif what == 4:
        del where[key]
    elif what == 5:
        source, place = random.choice(found)
        where[key] = source[place]
    elif what == 6 and isinstance(where, list):
        where[key:key] = [where[key]] * random.choice((1, 2, 30))
    elif isinstance(where, dict):
        where[random.choice(("", "name", "device", "action", "blocks", text(random)))] = (
            other(random) if what == 6 else where.pop(key)
        )
    else:
        where.insert(key, other(random))
