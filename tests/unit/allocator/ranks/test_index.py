"""The index of a directory of plans: what is nearest, and what is no index."""

import fcntl
import json
import os
from dataclasses import replace

import pytest

from pgmo.allocator.ranks import index
from pgmo.allocator.ranks.index import Entry
from pgmo.allocator.ranks.world import World
from pgmo.errors import FileError

HERE = ("cuda", "torch 2.11.0", "0.1.0", "ff")
ONE = Entry("gpt-0123abcd", 4, 1, *HERE, 9, "5c", "a0", 64)


def _order(entries, world):
    return [one.file for one in sorted(entries, key=lambda one: one.distance(world, *HERE))]


def test_what_differs_in_kind_is_further_than_another_size_of_the_job():
    entries = [
        replace(ONE, file="another device", device="cpu"),
        replace(ONE, file="another torch", framework="torch 2.13.0"),
        replace(ONE, file="other arguments", command="ee"),
        replace(ONE, file="another size", world=512),
        ONE,
    ]
    expected = [ONE.file, "another size", "other arguments", "another torch", "another device"]
    assert _order(entries, World(1, 4)) == expected


def test_a_stage_of_a_longer_pipeline_finds_the_like_stage():
    entries = [replace(ONE, file=f"stage {rank}", rank=rank) for rank in range(4)]
    nearest = [_order(entries, World(rank, 8))[0] for rank in range(8)]
    assert nearest[0] == "stage 0"
    assert nearest[-1] == "stage 3"
    assert nearest == sorted(nearest)


def test_worlds_are_compared_by_their_ratio():
    entries = [replace(ONE, file=str(size), world=size, rank=0) for size in (2, 64)]
    assert _order(entries, World(0, 8)) == ["2", "64"]
    assert _order(entries, World(0, 16)) == ["64", "2"]


def test_what_was_written_is_read(tmp_path):
    path = tmp_path / "gpt.ranks.json"
    index.write(path, [ONE, replace(ONE, rank=2)])
    assert index.read(path) == [ONE, replace(ONE, rank=2)]


@pytest.mark.parametrize(
    "changes",
    [
        {"file": "../elsewhere-0123abcd"},
        {"file": "gpt-*"},
        {"file": 7},
        {"rank": 4},
        {"rank": -1},
        {"world": "4"},
        {"arena": 1 << 70},
        {"shapes": None},
    ],
)
def test_entries_that_cannot_be_are_left_out(tmp_path, changes):
    path = tmp_path / "gpt.ranks.json"
    index.write(path, [ONE, ONE])
    told = json.loads(path.read_text())
    told["entries"][0] |= changes
    path.write_text(json.dumps(told))
    assert index.read(path) == [ONE]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": "pgmo ranks 9", "entries": []}'])
def test_what_is_no_index_has_no_entries(tmp_path, text):
    path = tmp_path / "gpt.ranks.json"
    path.write_text(text)
    assert index.read(path) == []


def test_whoever_holds_an_index_is_not_waited_for_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "_LOCK_PATIENCE", 0.05)
    path = tmp_path / "gpt.ranks.json"
    with index.locked(path):
        descriptor = os.open(tmp_path / ".gpt.ranks.json.lock", os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(descriptor)
        with pytest.raises(FileError, match=r"another process has held it for 0.05 s"):
            index.locked(path).__enter__()
    with index.locked(path):
        pass
