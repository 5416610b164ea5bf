import io
import json
import os
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmo.archive import pack, read, read_from, seal, write
from pgmo.errors import FileError

SCHEMA = {"size": np.dtype(np.int64), "flag": np.dtype(np.bool_), "tag": np.dtype(np.int32)}
COLUMNS = {
    "size": np.array([1, 2**40, 3]),
    "flag": np.array([True, False, True]),
    "tag": np.array([0, -1, 7], np.int32),
}


def _read(path):
    return read(path, "pgmoprof", 1, SCHEMA)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("archive") / "a.pgmoprof"
    write(path, "pgmoprof", 1, COLUMNS, {"ticks": 3})
    return path


def _rebuilt(saved, change=lambda members: None, **zip_options):
    """The same archive with its members changed, sealed again as an attacker would."""
    with zipfile.ZipFile(saved) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **zip_options) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.comment = b"pgmo-sha256:" + b"0" * 64
    return seal(buffer.getvalue())


def _changed_meta(**changes):
    def change(members):
        meta = json.loads(members["meta.json"])
        members["meta.json"] = json.dumps({**meta, **changes}).encode()

    return change


def _npy(array):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def test_round_trip(saved):
    archive = _read(saved)
    assert archive.rows == 3
    assert archive.fields == {"ticks": 3}
    for name, column in COLUMNS.items():
        assert archive.columns[name].dtype == SCHEMA[name]
        assert archive.columns[name].tolist() == column.tolist()


def test_numpy_reads_the_columns_directly(saved):
    loaded = np.load(saved, allow_pickle=False)
    assert loaded["size"].tolist() == COLUMNS["size"].tolist()


def test_equal_content_gives_equal_bytes(saved, tmp_path):
    write(tmp_path / "b.pgmoprof", "pgmoprof", 1, COLUMNS, {"ticks": 3})
    assert (tmp_path / "b.pgmoprof").read_bytes() == saved.read_bytes()


def test_no_rows(tmp_path):
    empty = {name: column[:0] for name, column in COLUMNS.items()}
    write(tmp_path / "e", "pgmoprof", 1, empty, {})
    assert _read(tmp_path / "e").rows == 0


def test_every_flipped_bit_is_noticed(saved, tmp_path):
    data = saved.read_bytes()
    target = tmp_path / "flipped"
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 1 << (at % 8)
        target.write_bytes(broken)
        with pytest.raises(FileError, match="flipped: "):
            _read(target)


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
                _read(target)


@settings(max_examples=300)
@given(st.data())
def test_flipped_and_sealed_again(saved, tmp_path_factory, data):
    """What hides behind a right seal is either refused or changes nothing that is read."""
    broken = bytearray(saved.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        broken[data.draw(st.integers(0, len(broken) - 77))] = data.draw(st.integers(0, 255))
    target = tmp_path_factory.getbasetemp() / "sealed"
    target.write_bytes(seal(bytes(broken)))
    try:
        archive = _read(target)
    except FileError:
        return
    assert archive.fields.keys() == {"ticks"}
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
    (_set("size.npy", _npy(np.array([1, 2]))), "'size.npy' has 2 rows, meta.json says 3"),
    (_set("size.npy", _npy(np.array([1, 2, 4]))), "'size.npy' does not match its checksum"),
    (_set("size.npy", _npy(np.array([1.0, 2.0, 3.0]))), "has type '<f8', must be '<i8'"),
    (_set("size.npy", _npy(np.array([[1], [2], [3]]))), "is not a flat array"),
    (_set("size.npy", _npy(np.array([1, None, 3], object))), "is not a flat array"),
    (_set("size.npy", b"cos\nsystem\n(S'true'\ntR."), "is no array in numpy's format"),
    (_set("size.npy", _npy(COLUMNS["size"])[:-1]), "has 23 bytes for 3 rows of 8"),
    (_set("flag.npy", _npy(COLUMNS["flag"])[:-1] + b"\2"), "neither 0 nor 1 in row 2"),
    (_huge_header, "has 99999999999 rows"),
    (_set("meta.json", b"{"), "meta.json cannot be parsed"),
    (_set("meta.json", b"[" * 100_000), "meta.json cannot be parsed"),
    (_set("meta.json", b"[]"), "meta.json is not an object"),
    (_set("meta.json", b'{"a": NaN}'), "NaN is no JSON number"),
    (_set("meta.json", b'{"a": 1, "a": 2}'), "a field is there twice"),
    (_set("meta.json", b"\xff"), "meta.json cannot be parsed"),
    (_changed_meta(format="pgmoplan"), "is a 'pgmoplan' file, not 'pgmoprof'"),
    (
        _changed_meta(format_version=2),
        "newer pgmo: format_version 2, this one reads up to 1; upgrade",
    ),
    (_changed_meta(format_version=True), "'format_version' is True, must be a whole number"),
    (_changed_meta(rows=2**60), "'rows' is 1152921504606846976, must be from 0"),
    (_changed_meta(rows=-1), "'rows' is -1"),
    (_changed_meta(rows="3"), "'rows' is '3', must be a whole number"),
    (_changed_meta(checksums={}), "the checksum of 'flag' is missing"),
    (_changed_meta(checksums={"size": 1}), "must be a mapping from strings to strings"),
]


@pytest.mark.parametrize(("change", "message"), HOSTILE, ids=[text[:40] for _, text in HOSTILE])
def test_hostile_content_behind_a_right_seal(saved, tmp_path, change, message):
    target = tmp_path / "hostile"
    target.write_bytes(_rebuilt(saved, change))
    with pytest.raises(FileError) as caught:
        _read(target)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{target}: ")
    assert "; " in str(caught.value)


def test_compressed_members_are_not_inflated(saved, tmp_path):
    target = tmp_path / "bomb"
    target.write_bytes(_rebuilt(saved, compression=zipfile.ZIP_DEFLATED))
    with pytest.raises(FileError, match="compressed or encrypted"):
        _read(target)


def test_a_member_that_is_there_twice(saved, tmp_path):
    data = _rebuilt(saved, _set("tag.npz", b""))
    target = tmp_path / "double"
    target.write_bytes(seal(data.replace(b"tag.npz", b"tag.npy")))
    with pytest.raises(FileError, match=r"'tag\.npy' is there twice"):
        _read(target)


@pytest.mark.parametrize("content", [b"", b"PK", b"PK\x03\x04", b"x" * 1000])
def test_other_files(tmp_path, content):
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(FileError, match=r"does not begin like|is empty|is truncated"):
        _read(tmp_path / "other")


def test_a_snapshot_is_told_how_to_become_a_profile(tmp_path):
    (tmp_path / "other").write_bytes(b"\x80\x04.")
    with pytest.raises(FileError, match=r"other: is a pickle; .* with pgmo import$"):
        _read(tmp_path / "other")


def test_paths_that_cannot_be_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "none", tmp_path / "pipe", "a\0b", "/dev/null"):
        with pytest.raises(FileError, match="check the path"):
            _read(path)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(saved, tmp_path, monkeypatch):
    target = tmp_path / "a.pgmoprof"
    target.write_bytes(b"old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(FileError, match="No space left on device"):
        write(target, "pgmoprof", 1, COLUMNS, {})
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.pgmoprof"]


def test_what_cannot_be_written(tmp_path):
    with pytest.raises(FileError, match="cannot be written"):
        write(tmp_path / "none" / "a", "pgmoprof", 1, COLUMNS, {})
    with pytest.raises(FileError, match="not a regular file"):
        write(tmp_path, "pgmoprof", 1, COLUMNS, {})


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write(tmp_path / "link", "pgmoprof", 1, COLUMNS, {})
    assert (tmp_path / "link").is_symlink()
    assert _read(tmp_path / "real").rows == 3


def test_columns_that_later_versions_brought(tmp_path):
    old = {name: COLUMNS[name] for name in ("size", "flag")}
    write(tmp_path / "old", "pgmoprof", 2, old, {})
    since = {"tag": 3, "flag": 2}
    archive = read(tmp_path / "old", "pgmoprof", 3, SCHEMA, since)
    assert archive.version == 2
    assert archive.columns["flag"].tolist() == COLUMNS["flag"].tolist()
    assert archive.columns["tag"].tolist() == [0, 0, 0]
    assert archive.columns["tag"].dtype == SCHEMA["tag"]
    with pytest.raises(FileError, match=r"'tag\.npy' is missing"):
        read(tmp_path / "old", "pgmoprof", 3, SCHEMA, {"tag": 2})


def _nested(inner, name="b"):
    return pack("pgmoplan", 1, COLUMNS, {"outer": True}, {name: inner})


def _read_nested(path, data, **options):
    return read_from(path, data, "pgmoplan", 1, SCHEMA, **options)


def test_archives_inside_of_an_archive(tmp_path):
    inner = pack("pgmoplan", 1, {name: column[:1] for name, column in COLUMNS.items()}, {"a": 1})
    write(tmp_path / "o", "pgmoplan", 1, COLUMNS, {"outer": True}, {"b": inner, "a": inner})
    assert (tmp_path / "o").read_bytes() == pack(
        "pgmoplan", 1, COLUMNS, {"outer": True}, {"b": inner, "a": inner}
    )
    outer = read(tmp_path / "o", "pgmoplan", 1, SCHEMA, nests=True)
    assert outer.fields == {"outer": True}
    assert outer.nested == {"a": inner, "b": inner}
    again = _read_nested(tmp_path / "o" / "b", outer.nested["b"])
    assert (again.rows, again.fields, again.nested) == (1, {"a": 1}, {})
    # They can be taken out with any tool.
    with zipfile.ZipFile(tmp_path / "o") as archive:
        archive.extract("b.pgmoplan", tmp_path)
    assert read(tmp_path / "b.pgmoplan", "pgmoplan", 1, SCHEMA).fields == {"a": 1}


def test_archives_inside_where_none_may_be(tmp_path):
    data = _nested(pack("pgmoplan", 1, COLUMNS, {}))
    with pytest.raises(FileError, match=r"member 'b\.pgmoplan' is not part of this format"):
        _read_nested(tmp_path, data)
    other = pack("pgmoplan", 1, COLUMNS, {}, {"b.pgmoprof/x": b""})
    assert list(_read_nested(tmp_path, other, nests=True).nested) == ["b.pgmoprof/x"]
    with pytest.raises(FileError, match=r"member 'c\.txt' is not part of this format"):
        _read_nested(
            tmp_path,
            _rebuilt(io.BytesIO(data), lambda members: members.update({"c.txt": b""})),
            nests=True,
        )


@pytest.mark.parametrize("where", ["inner", "outer"])
def test_a_flipped_bit_of_an_archive_inside_is_noticed(tmp_path, where):
    """Also where the outer archive was sealed again."""
    inner = pack("pgmoplan", 1, COLUMNS, {})
    data = _nested(inner)
    at = data.index(inner)
    for offset in range(0, len(inner), 7):
        broken = bytearray(data)
        broken[at + offset] ^= 1 << (offset % 8)
        if where == "outer":
            with pytest.raises(FileError, match=r"altered|begin"):
                _read_nested(tmp_path, bytes(broken), nests=True)
            continue
        outer = _read_nested(tmp_path, seal(bytes(broken)), nests=True)
        with pytest.raises(FileError, match=r"b\.pgmoplan: "):
            _read_nested(tmp_path / "b.pgmoplan", outer.nested["b"])


@pytest.mark.parametrize("data", [b"", b"PK", b"PK\x03\x04", b"x" * 500])
def test_bytes_that_are_no_archive(tmp_path, data):
    outer = _read_nested(tmp_path, _nested(data), nests=True)
    with pytest.raises(FileError, match=r"b\.pgmoplan: (is empty|does not begin|is truncated)"):
        _read_nested(tmp_path / "b.pgmoplan", outer.nested["b"])


def test_more_archives_than_fit():
    inner = {str(number): b"" for number in range(60)}
    assert len(_read_nested(None, pack("pgmoplan", 1, COLUMNS, {}, inner), nests=True).nested) == 60
    with pytest.raises(FileError, match="61 archives inside of one; the most is 60"):
        pack("pgmoplan", 1, COLUMNS, {}, {**inner, "more": b""})


def test_members_that_share_bytes_are_refused(saved, tmp_path):
    data = saved.read_bytes()
    with zipfile.ZipFile(saved) as archive:
        infos = archive.infolist()
    # All entries of the directory say what the largest does.
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
        _read(path)


@pytest.mark.parametrize("levels", [10, 900, 100_000])
def test_values_of_any_depth_are_shown_shortly(saved, tmp_path, levels):
    def change(members):
        deep = "[" * levels + "]" * levels
        members["meta.json"] = members["meta.json"].replace(
            b'"rows": 3', b'"rows": ' + deep.encode()
        )

    path = tmp_path / "a.pgmoprof"
    path.write_bytes(_rebuilt(saved, change))
    with pytest.raises(FileError, match=r"'rows' is \[\[|meta.json cannot be parsed") as caught:
        _read(path)
    assert len(str(caught.value)) < 400


def test_more_rows_than_a_file_may_have_are_not_written(monkeypatch):
    monkeypatch.setattr("pgmo.archive.MAX_ROWS", 2)
    with pytest.raises(FileError, match="3 rows are more than the 2"):
        pack("pgmoprof", 1, COLUMNS, {})
