import os

import pytest

from pgmo.cli.main import main
from pgmo.doctor.removal import clear, remove_unusable_adapters
from pgmo.errors import FileError

ADAPTER, CONTEXTS = "torch_cpu-2.13.0+cpu-0123456789abcdef.so", "contexts.json"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Return a cache with an adapter, contexts, a running session, and a file of a user."""
    root = tmp_path / "cache"
    for kind, name, size in (
        ("adapters", ADAPTER, 100),
        ("contexts", CONTEXTS, 20),
        ("running", "1.json", 3),
    ):
        (root / kind).mkdir(parents=True)
        (root / kind / name).write_bytes(bytes(size))
    (root / "mine.txt").touch()
    monkeypatch.setenv("PGMO_CACHE_DIR", str(root))
    return root


def test_one_kind_is_cleared_and_nothing_else(cache):
    assert main(["doctor", "--clear", "contexts"]) == 0
    assert sorted(path.name for path in cache.iterdir()) == ["adapters", "mine.txt", "running"]


def test_all_kinds_of_cached_files_are_cleared(cache, capsys):
    assert main(["doctor", "--clear"]) == 0
    assert sorted(path.name for path in cache.iterdir()) == ["mine.txt", "running"]
    assert "removed 1 files, 100 B" in capsys.readouterr().out
    assert [one.files for one in clear()] == [0, 0]


def test_files_of_a_project_with_folders_of_these_names_stay(cache):
    mine = [
        cache / folder / name
        for folder in ("adapters", "contexts")
        for name in ("adapter_model.safetensors", "mine.so", ".hidden", "a.lock")
    ]
    for path in mine:
        path.touch()
    left = cache / "adapters" / f".{ADAPTER}.0123456789ab.partial"
    left.touch()
    assert [one.files for one in clear()] == [2, 1]
    assert all(path.exists() for path in mine)
    assert not left.exists()
    assert [one.files for one in clear()] == [0, 0]


def test_adapters_are_recognized_by_their_names(tmp_path, monkeypatch):
    """`pgmo doctor --clear` recognizes an adapter by the name that `adapter_path` gives it."""
    monkeypatch.setenv("PGMO_CACHE_DIR", str(tmp_path))
    pytest.importorskip("torch")
    from pgmo.allocator.adapters.torch_source import cpu_source
    from pgmo.allocator.build.compile import adapter_path

    path = adapter_path(cpu_source())
    path.parent.mkdir()
    path.touch()
    assert [one.files for one in clear()] == [1, 0]
    assert not any(tmp_path.rglob("*.*"))


def test_an_empty_cache_goes_altogether(tmp_path, monkeypatch):
    monkeypatch.setenv("PGMO_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "cache" / "adapters").mkdir(parents=True)
    clear()
    assert not (tmp_path / "cache").exists()


def test_the_target_of_a_linked_folder_is_left_alone(cache, tmp_path, capsys):
    other = tmp_path / "other"
    (cache / "contexts").rename(other)
    (cache / "contexts").symlink_to(other)
    with pytest.raises(FileError, match="was not removed"):
        clear()
    assert (other / CONTEXTS).exists()
    assert main(["doctor", "--clear", "contexts"]) == 1


def test_links_in_it_go_and_their_targets_stay(cache):
    target = cache / "mine.txt"
    os.symlink(target, cache / "adapters" / ADAPTER.replace("cpu", "cuda"))
    clear()
    assert target.exists()


@pytest.mark.parametrize("state", ["broken", "damaged", "distrusted"])
def test_fixing_removes_what_cannot_be_loaded(state, cache):
    path = cache / "adapters" / ADAPTER
    (said,) = remove_unusable_adapters({"cpu_adapter": {"state": state, "path": str(path)}})
    assert said == f"removed {path}, which was {state}"
    assert not path.exists()


def test_fixing_removes_nothing_outside_of_the_cache_and_nothing_that_works(cache, tmp_path):
    outside = tmp_path / "file.so"
    outside.touch()
    for state, path in (("broken", outside), ("prebuilt", cache / "mine.txt")):
        found = {"cpu_adapter": {"state": state, "path": str(path)}}
        assert remove_unusable_adapters(found) == ()
        assert path.exists()
