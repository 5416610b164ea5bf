from pgmo.doctor.cache import look_at_cache


def test_a_folder_that_is_not_there_yet_is_not_made(tmp_path, monkeypatch):
    folder = tmp_path / "a" / "b"
    monkeypatch.setenv("PGMO_CACHE_DIR", str(folder))
    found = look_at_cache()
    assert (found.folder, found.error) == (folder, "")
    assert found.free > 0
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written(monkeypatch):
    monkeypatch.setenv("PGMO_CACHE_DIR", "/proc/pgmo")  # nobody writes there, not even root
    found = look_at_cache()
    assert found.error.endswith("(/proc)")


def test_a_file_in_its_place(tmp_path, monkeypatch):
    (tmp_path / "cache").touch()
    monkeypatch.setenv("PGMO_CACHE_DIR", str(tmp_path / "cache"))
    assert "Not a directory" in look_at_cache().error
