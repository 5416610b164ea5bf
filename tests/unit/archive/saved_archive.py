"""Saved archive, and changed archives as an attacker makes them."""

import io
import json
import zipfile

import numpy as np

from pgmo.archive import read, seal

VERSION = 2
SCHEMA = {"size": np.dtype(np.int64), "flag": np.dtype(np.bool_), "tag": np.dtype(np.int32)}
COLUMNS = {
    "size": np.array([1, 2**40, 3]),
    "flag": np.array([True, False, True]),
    "tag": np.array([0, -1, 7], np.int32),
}


def read_saved(path):
    return read(path, "pgmoprof", VERSION, SCHEMA)


def rebuilt(saved, change=lambda members: None, **zip_options):
    """Return the archive with changed members and a valid seal, as an attacker can make it."""
    with zipfile.ZipFile(saved) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **zip_options) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.comment = b"pgmo-sha256:" + b"0" * 64
    return seal(buffer.getvalue())


def changed_meta(**changes):
    def change(members):
        meta = json.loads(members["meta.json"])
        members["meta.json"] = json.dumps({**meta, **changes}).encode()

    return change


def npy(array):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=True)
    return buffer.getvalue()
