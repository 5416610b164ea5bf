import os

from pgmo.doctor.cache import examine_cache


def test_a_folder_that_is_not_there_yet_is_not_made(tmp_path, monkeypatch):
    folder = tmp_path / "a" / "b"
    monkeypatch.setenv("PGMO_CACHE_DIR", str(folder))
    found = examine_cache()
    assert (found.folder, found.error) == (folder, "")
    assert found.free > 0
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written(monkeypatch):
    monkeypatch.setenv("PGMO_CACHE_DIR", "/proc/pgmo")  # not even root can write in /proc
    found = examine_cache()
    assert found.error.endswith("(/proc)")


def test_a_file_in_its_place(tmp_path, monkeypatch):
    (tmp_path / "cache").touch()
    monkeypatch.setenv("PGMO_CACHE_DIR", str(tmp_path / "cache"))
    found = examine_cache()
    assert "Not a directory" in found.error
    assert found.misplaced


def test_adapters_and_leftover_files_are_counted(tmp_path, monkeypatch):
    monkeypatch.setenv("PGMO_CACHE_DIR", str(tmp_path))
    folder = tmp_path / "adapters"
    folder.mkdir()
    (folder / "a.so").write_bytes(bytes(10))
    (folder / "b.so").write_bytes(bytes(20))
    (folder / "b.1.tmp").touch()
    os.utime(folder / "b.1.tmp", (0, 0))
    found = examine_cache()
    assert (found.distrust, found.adapters, found.size, found.left) == ("", 2, 30, 1)
    assert not found.misplaced
    assert (folder / "b.1.tmp").exists()  # examination removes no file


def test_a_folder_that_is_not_trusted(tmp_path, monkeypatch):
    monkeypatch.setenv("PGMO_CACHE_DIR", str(tmp_path))
    (tmp_path / "adapters").symlink_to("/")
    assert "is a symbolic link" in examine_cache().distrust
