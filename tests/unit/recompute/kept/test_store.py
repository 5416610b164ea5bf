"""The folder of kept steps, which several processes write."""

import os
import warnings
from pathlib import Path

import pytest

from pgmo.recompute.kept import store


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PGMO_CACHE_DIR", str(tmp_path))
    return tmp_path / store.STEPS


def test_what_another_process_removes_meanwhile_is_no_error(cache, monkeypatch):
    assert store.write("0", 0)
    iterdir = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda path: [*iterdir(path), path / "gone.step"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.write("1", 1)
    assert (store.read("0"), store.read("1")) == (0, 1)


def test_those_that_were_written_first_go_first(cache, monkeypatch):
    monkeypatch.setattr(store, "_MOST", 2)
    for age, key in enumerate("abcd"):
        assert store.write(key, key)
        os.utime(cache / f"{key}.step", (age, age))
    assert [store.read(key) for key in "abcd"] == [None, None, "c", "d"]
