"""Profiles and plans with changes behind a valid seal, as an attacker would make them."""

import contextlib
import functools
import hashlib
import io
import json
import tempfile
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from pgmo.archive import seal
from tests.fuzz.files import seeds
from tests.fuzz.files.values import NUMBERS, change, number, paths, plain, text

_SEAL = b"pgmo-sha256:" + b"0" * 64


@functools.cache
def _whole(kind: str) -> tuple[dict[str, bytes], ...]:
    made = []
    with tempfile.TemporaryDirectory() as folder:
        for what in seeds.profiles() if kind == "pgmoprof" else seeds.plans():
            what.save(Path(folder) / "a")
            made.append(_members((Path(folder) / "a").read_bytes()))
    return tuple(made)


def archive_file(random: Random, kind: str) -> bytes:
    """Return a changed archive; `kind` is "pgmoprof" or "pgmoplan"."""
    members = dict(random.choice(_whole(kind)))
    data = _packed(_changed(members, random, kind), random)
    if random.random() < 0.15:
        for _ in range(random.choice((1, 1, 4))):
            at = random.randrange(len(data))
            data = data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]
        data = seal(data)
    if random.random() < 0.02:
        data = data[: random.randrange(len(data))]
    return data


def _members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _packed(members: dict[str, bytes], random: Random) -> bytes:
    buffer = io.BytesIO()
    odd = random.random() < 0.02
    with zipfile.ZipFile(
        buffer, "w", zipfile.ZIP_DEFLATED if odd else zipfile.ZIP_STORED
    ) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
        archive.comment = _SEAL
    return seal(buffer.getvalue())


def _changed(members: dict[str, bytes], random: Random, kind: str) -> dict[str, bytes]:
    for _ in range(random.choice((1, 1, 2, 3))):
        what = random.randrange(10)
        inner = [name for name in members if name.endswith(kind)]
        if what < 2:
            _texts(members, random)
        elif what < 4:
            _fields(members, random)
        elif what < 8:
            _numbers(members, random)
        elif inner:
            name = random.choice(inner)
            with contextlib.suppress(zipfile.BadZipFile):  # the member may have been replaced
                changed = _changed(_members(members[name]), random, kind)
                members[name] = _packed(changed, random)
        else:
            _names(members, random)
    return members


def _fields(members: dict[str, bytes], random: Random) -> None:
    """Change values or the text of meta.json."""
    if "meta.json" not in members:
        return
    content = members["meta.json"].decode()
    if random.random() < 0.15:
        at = random.randrange(len(content))
        known = ("[" * 900 + "]" * 900, "1e999", "NaN", "9" * 5000, '"\\ud800"', '{"a":1,"a":2}')
        end = at + random.choice((0, 1, 5))
        odd = random.choice((*known, ",", ""))
        members["meta.json"] = (content[:at] + odd + content[end:]).encode()
        return
    try:
        meta = json.loads(content)
        for _ in range(random.choice((1, 1, 3))):
            change(meta, random, _deep if random.random() < 0.1 else plain)
        members["meta.json"] = json.dumps(meta).encode()
    except (ValueError, RecursionError):
        return


def _texts(members: dict[str, bytes], random: Random) -> None:
    """Change texts in meta.json, most of which may have any value."""
    try:
        meta = json.loads(members["meta.json"])
    except (KeyError, ValueError, RecursionError):
        return
    found = [(where, key) for where, key in paths(meta) if isinstance(where[key], str)]
    for where, key in random.sample(found, min(len(found), random.choice((1, 2, 5)))):
        if key not in ("format", "fingerprint") and len(where[key]) != 64:
            where[key] = text(random)
    members["meta.json"] = json.dumps(meta).encode()


def _deep(random: Random) -> Any:
    value: Any = text(random)
    for _ in range(random.choice((10, 300, 800))):
        value = [value] if random.random() < 0.5 else {"a": value}
    return value


def _numbers(members: dict[str, bytes], random: Random) -> None:
    """Change numbers, the length or the type of a column, mostly with a valid checksum."""
    name = random.choice([name for name in members if name.endswith(".npy")] or [""])
    try:
        column = np.load(io.BytesIO(members[name]), allow_pickle=False)
        meta = json.loads(members["meta.json"])
        checksums = meta["checksums"]
    except (KeyError, ValueError, EOFError, TypeError, RecursionError):
        return
    for _ in range(random.choice((1, 1, 2, 10))):
        if column.ndim == 1 and len(column):
            column[random.randrange(len(column))] = _of_type(column.dtype, random)
    ways = (
        lambda: column[: len(column) // 2],
        lambda: np.concatenate([column, column]),
        lambda: column.astype(np.float64),
        lambda: column.astype(">i8"),
        lambda: column.reshape(1, -1),
        lambda: np.sort(column)[::-1],
    )
    if random.random() < 0.2 and column.ndim == 1:
        column = np.ascontiguousarray(random.choice(ways)())
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, column)
    members[name] = buffer.getvalue()
    if random.random() < 0.95 and isinstance(checksums, dict):
        checksums[name.removesuffix(".npy")] = hashlib.sha256(column.tobytes()).hexdigest()
    if random.random() < 0.05:
        meta["rows"] = len(column)
    members["meta.json"] = json.dumps(meta).encode()


def _of_type(dtype: np.dtype[Any], random: Random) -> Any:
    if dtype.kind not in "iu":
        return random.random() < 0.5
    limits = np.iinfo(dtype)
    near = random.choice((0, 1, 2, 3, 10, 40, 80, 100, -1, *NUMBERS, number(random)))
    return min(max(near, int(limits.min)), int(limits.max))


def _names(members: dict[str, bytes], random: Random) -> None:
    """Remove a member, or add a copy of it under another name."""
    name = random.choice(list(members))
    if random.random() < 0.4:
        del members[name]
        return
    known = ("x.npy", "../a.npy", "other-1.pgmoplan", "trace.pgmoprof", "opening.pgmoplan")
    new = random.choice((*known, text(random)))
    # The directory of an archive cannot hold a lone surrogate.
    members[new.encode("utf-8", "replace").decode()[:200] or "x"] = members[name]
