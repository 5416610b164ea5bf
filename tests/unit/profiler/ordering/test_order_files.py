"""Tests of orders in the files of profiles and plans: kept, damaged and wrong."""

import dataclasses

import numpy as np
import pytest

from pgmo.archive import pack, read, write
from pgmo.errors import FileError
from pgmo.packing import plan_file
from pgmo.packing.plan_file import FORMAT_VERSION as PLAN_VERSION
from pgmo.packing.plan_file import read_plan, write_plan
from pgmo.packing.planner import plan as planned
from pgmo.profiler import profile_file
from pgmo.profiler.ordering.order import COLUMNS, FREE, RECORD, UNKNOWN, WAIT, Order
from pgmo.profiler.profile import Profile
from pgmo.profiler.profile_file import FORMAT_VERSION as PROFILE_VERSION

READERS = {
    "pgmoprof": (Profile.load, PROFILE_VERSION),
    "pgmoplan": (read_plan, PLAN_VERSION),
}
HONEST = {
    "tick": [1, 1, 2, 2],
    "kind": [FREE, RECORD, WAIT, WAIT],
    "stream": [0, 0, 7, 7],
    "target": [0, UNKNOWN, 1, UNKNOWN],
    "back": [0, 0, 0, 0],
}


def _profile() -> Profile:
    columns = {"size": [512, 1024], "start": [0, 1], "end": [1, 3], "stream": [0, 7]}
    return Profile.from_columns(**columns, ticks=2, order=Order(**HONEST))


def _file(kind, where, order=b""):
    """Write a file of a kind with `order` as its order, or without one if `order` is empty."""
    without = dataclasses.replace(_profile(), order=None)
    if kind == "pgmoprof":
        without.save(where)
    else:
        write_plan(planned(without, solver="best-fit", threads=1), where)
    columns = profile_file.COLUMNS if kind == "pgmoprof" else plan_file.COLUMNS
    honest = read(where, kind, READERS[kind][1], columns, nests=True)
    nested = {"order": order} if order else {}
    write(where, kind, READERS[kind][1], honest.columns, honest.fields, nested)


def _same(one: Order, other: Order) -> None:
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_a_profile_and_its_plan_keep_the_order(tmp_path):
    profile = _profile()
    profile.save(tmp_path / "p.pgmoprof")
    loaded = Profile.load(tmp_path / "p.pgmoprof")
    _same(loaded.order, profile.order)
    write_plan(planned(loaded, solver="best-fit", threads=1), tmp_path / "p.pgmoplan")
    _same(read_plan(tmp_path / "p.pgmoplan").order, profile.order)


def test_plans_inside_of_a_plan_keep_theirs(tmp_path):
    plan = planned(_profile(), solver="best-fit", threads=1)
    without = dataclasses.replace(plan, order=None)
    write_plan(dataclasses.replace(without, others=(plan, without)), tmp_path / "a.pgmoplan")
    read = read_plan(tmp_path / "a.pgmoplan")
    assert read.order is None
    _same(read.others[0].order, plan.order)
    assert read.others[1].order is None


@pytest.mark.parametrize("kind", READERS)
def test_a_file_without_an_order_has_none(tmp_path, kind):
    _file(kind, tmp_path / "a")
    assert READERS[kind][0](tmp_path / "a").order is None


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize(
    ("column", "rows"),
    [
        ("tick", [2, 1, 1, 1]),
        ("tick", [-1, 1, 2, 2]),
        ("tick", [1, 1, 2, 3]),
        ("kind", [9, RECORD, WAIT, WAIT]),
        ("back", [0, 0, 0, 99]),
        ("back", [0, 0, -1, 0]),
        ("target", [0, UNKNOWN, 0, UNKNOWN]),
        ("target", [0, UNKNOWN, 4, UNKNOWN]),
        ("target", [2, UNKNOWN, 1, UNKNOWN]),
        ("target", [-1, UNKNOWN, 1, UNKNOWN]),
    ],
)
def test_rows_that_contradict_themselves_behind_right_seals(tmp_path, kind, column, rows):
    columns = {
        name: np.asarray(values, COLUMNS[name]) for name, values in {**HONEST, column: rows}.items()
    }
    _file(kind, tmp_path / "a", pack(kind, READERS[kind][1], columns, {}))
    with pytest.raises(FileError):
        READERS[kind][0](tmp_path / "a")


@pytest.mark.parametrize("kind", READERS)
def test_an_order_has_no_fields_of_its_own(tmp_path, kind):
    columns = {name: np.asarray(values, COLUMNS[name]) for name, values in HONEST.items()}
    _file(kind, tmp_path / "a", pack(kind, READERS[kind][1], columns, {"more": 1}))
    with pytest.raises(FileError, match="more"):
        READERS[kind][0](tmp_path / "a")


def test_an_order_keeps_its_blocks_if_requests_are_inserted():
    order = Order(**HONEST)
    moved = order.moved(np.array([4, 6]), np.array([0, 3, 5]))
    assert moved.tick.tolist() == [3, 3, 5, 5]
    assert moved.target.tolist() == [4, UNKNOWN, 1, UNKNOWN]  # only frees name blocks
    assert moved.kind.tolist() == HONEST["kind"]
