"""Tests of files that are replaced in one step, and of the files that killed writers leave."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pgmo.errors import FileError
from pgmo.files.leftovers import hold
from pgmo.files.replacement import replace_file

LONG_AGO = time.time() - 7200


def aged(path, text="old"):
    path.write_text(text)
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def test_permissions_can_be_kept_from_others(tmp_path):
    before = os.umask(0)
    try:
        replace_file(tmp_path / "a", b"1", without=0o022)
        replace_file(tmp_path / "b", b"1")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o666


def test_the_next_writer_removes_files_of_a_killed_one(tmp_path):
    target = tmp_path / "a.csv"
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "os.replace = lambda *a: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from pgmo.files.replacement import replace_file\n"
        "replace_file(Path(sys.argv[1]), b'half')\n"
    )
    done = subprocess.run([sys.executable, "-c", program, target], check=False)
    assert done.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    replace_file(target, b"1")
    assert left.exists()  # it is so new that its writer may be alive
    os.utime(left, (LONG_AGO, LONG_AGO))
    replace_file(target, b"2")
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
    assert target.read_bytes() == b"2"


def test_a_file_being_written_is_left_alone_at_any_age(tmp_path):
    partial = aged(tmp_path / ".b.csv.0123456789ab.partial")
    with open(partial, "rb") as file:
        hold(file.fileno())
        replace_file(tmp_path / "a.csv", b"1")
        assert partial.exists()
    replace_file(tmp_path / "a.csv", b"1")
    assert not partial.exists()


@pytest.mark.parametrize("name", ["b.partial", ".b.xyz.partial", ".0123456789ab.partial", "notes"])
def test_files_of_other_names_are_not_ours_to_remove(name, tmp_path):
    other = aged(tmp_path / name)
    replace_file(tmp_path / "a.csv", b"1")
    assert other.exists()


def test_a_link_is_not_followed_to_something_old(tmp_path):
    precious = aged(tmp_path / "precious")
    link = tmp_path / ".b.csv.0123456789ab.partial"
    link.symlink_to(precious)
    replace_file(tmp_path / "a.csv", b"1")
    assert precious.exists()


def test_a_folder_or_a_device_is_not_replaced(tmp_path):
    for path in (tmp_path, Path("/dev/null")):
        with pytest.raises(FileError, match="is not a regular file"):
            replace_file(path, b"1")
    with pytest.raises(FileError, match="cannot be written"):
        replace_file(tmp_path / "none" / "a", b"1")


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "real")
    replace_file(tmp_path / "link", b"1")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"1"


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    (tmp_path / "a").write_bytes(b"old")
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(FileError, match="No space left on device"):
        replace_file(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]
