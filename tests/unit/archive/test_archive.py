"""Archives are written and read, and failed writes keep the existing file."""

import os

import numpy as np
import pytest

from pgmo.archive import pack, write
from pgmo.errors import FileError
from tests.unit.archive.saved_archive import COLUMNS, SCHEMA, VERSION, read_saved


def test_round_trip(saved):
    archive = read_saved(saved)
    assert archive.rows == 3
    assert archive.fields == {"ticks": 3}
    for name, column in COLUMNS.items():
        assert archive.columns[name].dtype == SCHEMA[name]
        assert archive.columns[name].tolist() == column.tolist()


def test_numpy_reads_the_columns_directly(saved):
    loaded = np.load(saved, allow_pickle=False)
    assert loaded["size"].tolist() == COLUMNS["size"].tolist()


def test_equal_content_gives_equal_bytes(saved, tmp_path):
    write(tmp_path / "b.pgmoprof", "pgmoprof", VERSION, COLUMNS, {"ticks": 3})
    assert (tmp_path / "b.pgmoprof").read_bytes() == saved.read_bytes()


def test_no_rows(tmp_path):
    empty = {name: column[:0] for name, column in COLUMNS.items()}
    write(tmp_path / "e", "pgmoprof", VERSION, empty, {})
    assert read_saved(tmp_path / "e").rows == 0


@pytest.mark.parametrize("content", [b"", b"PK", b"PK\x03\x04", b"x" * 1000])
def test_other_files(tmp_path, content):
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(FileError, match=r"does not begin like|is empty|has no seal"):
        read_saved(tmp_path / "other")


def test_the_error_for_a_snapshot_names_the_command_for_a_profile(tmp_path):
    (tmp_path / "other").write_bytes(b"\x80\x04.")
    with pytest.raises(FileError, match=r"begins like a pickle.* with pgmo export --to profile$"):
        read_saved(tmp_path / "other")


def test_paths_that_cannot_be_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    paths = (tmp_path, tmp_path / "none", tmp_path / "pipe", tmp_path / "file" / "in")
    for path in (*paths, "a\0b", "/dev/null"):
        with pytest.raises(FileError, match="check the path"):
            read_saved(path)


def test_more_rows_or_bytes_than_a_file_may_have_are_not_written(monkeypatch):
    size = len(pack("pgmoprof", VERSION, COLUMNS, {}))
    monkeypatch.setattr("pgmo.archive.writing.MAX_FILE", size)
    assert len(pack("pgmoprof", VERSION, COLUMNS, {})) == size
    monkeypatch.setattr("pgmo.archive.writing.MAX_FILE", size - 1)
    with pytest.raises(FileError, match=f"{size} bytes, more than the {size - 1}"):
        pack("pgmoprof", VERSION, COLUMNS, {})
    monkeypatch.setattr("pgmo.archive.writing.MAX_ROWS", 2)
    with pytest.raises(FileError, match="3 rows, more than the 2"):
        pack("pgmoprof", VERSION, COLUMNS, {})
