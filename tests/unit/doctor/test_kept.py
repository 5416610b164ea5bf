import os

import pytest

from pgmo.cli.main import main
from pgmo.doctor.fixing import fix
from pgmo.doctor.kept import clear, look_at_kept
from pgmo.errors import FileError


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Two kinds of files, and one that is somebody else's."""
    root = tmp_path / "cache"
    for kind, size in (("adapters", 100), ("steps", 20), ("running", 3)):
        (root / kind).mkdir(parents=True)
        (root / kind / "file.so").write_bytes(bytes(size))
    (root / "mine.txt").touch()
    monkeypatch.setenv("PGMO_CACHE_DIR", str(root))
    return root


def test_it_shows_each_kind(cache, capsys):
    assert [(one.kind, one.files, one.size) for one in look_at_kept()] == [
        ("adapters", 1, 100),
        ("steps", 1, 20),
    ]
    assert main(["cache"]) == 0
    shown = capsys.readouterr()
    assert f"cache       {cache}\nadapters    1 files, 100 B\n" in shown.out
    assert "Next: pgmo cache --clear" in shown.err


def test_one_kind_is_cleared_and_nothing_else(cache):
    assert main(["cache", "--clear", "steps"]) == 0
    assert sorted(path.name for path in cache.iterdir()) == ["adapters", "mine.txt", "running"]


def test_all_that_pgmo_keeps_is_cleared(cache, capsys):
    assert main(["cache", "--clear"]) == 0
    assert sorted(path.name for path in cache.iterdir()) == ["mine.txt", "running"]
    assert "removed 1 files, 100 B" in capsys.readouterr().out
    assert [one.files for one in clear()] == [0, 0]


def test_an_empty_cache_goes_altogether(tmp_path, monkeypatch):
    monkeypatch.setenv("PGMO_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "cache" / "adapters").mkdir(parents=True)
    clear()
    assert not (tmp_path / "cache").exists()


def test_what_a_link_leads_to_is_left_alone(cache, tmp_path, capsys):
    other = tmp_path / "other"
    (cache / "steps").rename(other)
    (cache / "steps").symlink_to(other)
    with pytest.raises(FileError, match="is left alone"):
        clear()
    assert (other / "file.so").exists()
    assert main(["cache", "--clear", "steps"]) == 1


def test_links_in_it_go_and_their_targets_stay(cache):
    target = cache / "mine.txt"
    os.symlink(target, cache / "adapters" / "link.so")
    clear()
    assert target.exists()


@pytest.mark.parametrize("state", ["broken", "damaged", "distrusted"])
def test_fixing_removes_what_cannot_be_loaded(state, cache):
    path = cache / "adapters" / "file.so"
    (said,) = fix({"cpu_adapter": {"state": state, "path": str(path)}})
    assert said == f"removed {path}, which was {state}"
    assert not path.exists()


def test_fixing_removes_nothing_outside_of_the_cache(cache, tmp_path):
    outside = tmp_path / "file.so"
    outside.touch()
    assert fix({"cpu_adapter": {"state": "broken", "path": str(outside)}}) == ()
    assert fix({"cpu_adapter": {"state": "prebuilt", "path": str(cache / "mine.txt")}}) == ()
    assert outside.exists()
