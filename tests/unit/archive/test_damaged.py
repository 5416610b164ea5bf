"""Damaged archives, and maliciously changed ones with a valid seal, are refused."""

import struct
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmo.archive import seal
from pgmo.errors import FileError
from tests.unit.archive.saved_archive import (
    COLUMNS,
    VERSION,
    changed_meta,
    npy,
    read_saved,
    rebuilt,
)


def test_every_flipped_bit_is_noticed(saved, tmp_path):
    data = saved.read_bytes()
    target = tmp_path / "flipped"
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 1 << (at % 8)
        target.write_bytes(broken)
        with pytest.raises(FileError, match="flipped: "):
            read_saved(target)


@given(st.data())
def test_truncated_and_garbled_files(saved, tmp_path_factory, data):
    original = saved.read_bytes()
    target = tmp_path_factory.getbasetemp() / "garbled"
    at = data.draw(st.integers(0, len(original) - 1))
    garbage = data.draw(st.binary(max_size=200))
    for broken in (original[:at], original[:at] + garbage, garbage, original + garbage + b"x"):
        if broken != original:
            target.write_bytes(broken)
            with pytest.raises(FileError):
                read_saved(target)


@settings(max_examples=300)
@given(st.data())
def test_flipped_and_sealed_again(saved, tmp_path_factory, data):
    """A change behind a valid seal is refused, or does not change what is read."""
    broken = bytearray(saved.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        broken[data.draw(st.integers(0, len(broken) - 77))] = data.draw(st.integers(0, 255))
    target = tmp_path_factory.getbasetemp() / "sealed"
    target.write_bytes(seal(bytes(broken)))
    try:
        archive = read_saved(target)
    except FileError:
        return
    assert len(archive.fields) == 1  # a reader refuses a missing "ticks"
    for name, column in COLUMNS.items():
        assert archive.columns[name].tolist() == column.tolist()


def _set(name, content):
    def change(members):
        members[name] = content

    return change


def _huge_header(members):
    header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (99999999999,), }\n"
    members["size.npy"] = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header


HOSTILE = [
    (lambda m: m.pop("size.npy"), "member 'size.npy' is missing"),
    (lambda m: m.pop("meta.json"), "member 'meta.json' is missing"),
    (_set("extra.npy", b""), "member 'extra.npy' is not part of this format"),
    (_set("size.npy", npy(np.array([1, 2]))), "'size.npy' has 2 rows, meta.json says 3"),
    (_set("size.npy", npy(np.array([1, 2, 4]))), "'size.npy' does not match its checksum"),
    (_set("size.npy", npy(np.array([1.0, 2.0, 3.0]))), "has type '<f8', must be '<i8'"),
    (_set("size.npy", npy(np.array([[1], [2], [3]]))), "numpy's header of a flat"),
    (_set("size.npy", npy(np.array([1, None, 3], object))), "numpy's header of a flat"),
    (_set("size.npy", b"cos\nsystem\n(S'true'\ntR."), "is not an array in numpy's format"),
    (_set("size.npy", npy(COLUMNS["size"])[:-1]), "has 23 bytes for 3 rows of 8 bytes"),
    (_set("flag.npy", npy(COLUMNS["flag"])[:-1] + b"\2"), "neither 0 nor 1 in row 2"),
    (_huge_header, "has 99999999999 rows"),
    (_set("meta.json", b"{"), "meta.json cannot be parsed"),
    (_set("meta.json", b"[" * 100_000), "meta.json cannot be parsed"),
    (_set("meta.json", b"[]"), "meta.json is not an object"),
    (_set("meta.json", b'{"a": NaN}'), "NaN is not a JSON number"),
    (_set("meta.json", b'{"a": 1, "a": 2}'), "a field is there twice"),
    (_set("meta.json", b"\xff"), "meta.json cannot be parsed"),
    (changed_meta(format="pgmoplan"), "is a 'pgmoplan' file, not 'pgmoprof'"),
    (
        changed_meta(format_version=VERSION + 1),
        "a newer pgmo: format_version 3, this pgmo reads 2; install a newer pgmo",
    ),
    (
        changed_meta(format_version=VERSION - 1),
        "an older pgmo: format_version 1, this pgmo reads 2; record the profile again",
    ),
    (changed_meta(format_version=True), "'format_version' is True, must be a whole number"),
    (changed_meta(rows=2**60), "'rows' is 1152921504606846976, must be from 0"),
    (changed_meta(rows=-1), "'rows' is -1"),
    (changed_meta(rows="3"), "'rows' is '3', must be a whole number"),
    (changed_meta(checksums={}), "the checksum of 'flag' is missing"),
    (changed_meta(checksums={"size": 1}), "must be a mapping from strings to strings"),
]


@pytest.mark.parametrize(("change", "message"), HOSTILE, ids=[text[:40] for _, text in HOSTILE])
def test_hostile_content_behind_a_right_seal(saved, tmp_path, change, message):
    target = tmp_path / "hostile"
    target.write_bytes(rebuilt(saved, change))
    with pytest.raises(FileError) as caught:
        read_saved(target)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{target}: ")
    assert "; " in str(caught.value)


def test_compressed_members_are_not_inflated(saved, tmp_path):
    target = tmp_path / "bomb"
    target.write_bytes(rebuilt(saved, compression=zipfile.ZIP_DEFLATED))
    with pytest.raises(FileError, match="compressed or encrypted"):
        read_saved(target)


def test_a_member_that_is_there_twice(saved, tmp_path):
    data = rebuilt(saved, _set("tag.npz", b""))
    target = tmp_path / "double"
    target.write_bytes(seal(data.replace(b"tag.npz", b"tag.npy")))
    with pytest.raises(FileError, match=r"'tag\.npy' is there twice"):
        read_saved(target)


def test_members_that_share_bytes_are_refused(saved, tmp_path):
    data = saved.read_bytes()
    with zipfile.ZipFile(saved) as archive:
        infos = archive.infolist()
    # All entries of the directory refer to the largest member.
    largest = max(infos, key=lambda info: info.file_size)
    at = data.index(b"PK\x01\x02")
    whole = bytearray(data)
    for info in infos:
        struct.pack_into("<II", whole, at + 20, largest.file_size, largest.file_size)
        struct.pack_into("<I", whole, at + 42, largest.header_offset)
        at += 46 + len(info.filename)
    path = tmp_path / "a.pgmoprof"
    path.write_bytes(seal(bytes(whole)))
    with pytest.raises(FileError, match="declares members of more bytes than the"):
        read_saved(path)


@pytest.mark.parametrize("levels", [10, 900, 100_000])
def test_values_of_any_depth_are_shown_shortly(saved, tmp_path, levels):
    def change(members):
        deep = "[" * levels + "]" * levels
        members["meta.json"] = members["meta.json"].replace(
            b'"rows": 3', b'"rows": ' + deep.encode()
        )

    path = tmp_path / "a.pgmoprof"
    path.write_bytes(rebuilt(saved, change))
    with pytest.raises(FileError, match=r"'rows' is \[\[|meta.json cannot be parsed") as caught:
        read_saved(path)
    assert len(str(caught.value)) < 400
