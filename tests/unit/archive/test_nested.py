"""Archives inside of archives."""

import io
import zipfile

import pytest

from pgmo.archive import pack, read, read_from, write
from pgmo.errors import FileError
from tests.unit.archive.saved_archive import COLUMNS, SCHEMA, rebuilt


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
    # Any tool can extract the inner archives.
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
            rebuilt(io.BytesIO(data), lambda members: members.update({"c.txt": b""})),
            nests=True,
        )


@pytest.mark.parametrize("data", [b"", b"PK", b"PK\x03\x04", b"x" * 500])
def test_bytes_that_are_no_archive(tmp_path, data):
    outer = _read_nested(tmp_path, _nested(data), nests=True)
    with pytest.raises(FileError, match=r"b\.pgmoplan: (is empty|does not begin|has no seal)"):
        _read_nested(tmp_path / "b.pgmoplan", outer.nested["b"])


def test_more_archives_than_fit():
    inner = {str(number): b"" for number in range(60)}
    assert len(_read_nested(None, pack("pgmoplan", 1, COLUMNS, {}, inner), nests=True).nested) == 60
    with pytest.raises(FileError, match="61 inner archives, more than 60"):
        pack("pgmoplan", 1, COLUMNS, {}, {**inner, "more": b""})
