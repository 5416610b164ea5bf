import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from pgmo.archive import pack, write
from pgmo.errors import FileError
from pgmo.packing.plan import COLUMNS, Plan
from pgmo.packing.plan_file import FORMAT_VERSION, read_plan, write_plan
from pgmo.packing.planner import plan as make_plan
from pgmo.packing.spill import least_budget
from pgmo.profiler.profile import Profile
from tests.unit.archive.saved_archive import rebuilt
from tests.unit.profiler.examples import profiles, small_profile


@pytest.fixture(scope="module")
def plan():
    return make_plan(small_profile(), alignment=64)


@pytest.fixture(scope="module")
def fields(plan, tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "good.pgmoplan"
    plan.save(path)
    return _own_fields(path)


def _own_fields(path):
    with zipfile.ZipFile(path) as archive:
        meta = json.loads(archive.read("meta.json"))
    container = ("format", "format_version", "rows", "checksums")
    return {name: value for name, value in meta.items() if name not in container}


def _columns(plan):
    return {name: getattr(plan, name) for name in COLUMNS}


def _assert_same(one, other):
    for name in COLUMNS:
        assert getattr(one, name).tolist() == getattr(other, name).tolist()
    for name in (
        "arena",
        "max_load",
        "bound",
        "resident",
        "optimal",
        "solver",
        "alignment",
        "ticks",
        "circular",
    ):
        assert getattr(one, name) == getattr(other, name)
    assert (one.fingerprint, one.seconds, one.meta) == (
        other.fingerprint,
        other.seconds,
        other.meta,
    )


@given(profile=profiles())
def test_any_plan_comes_back(tmp_path_factory, profile):
    path = tmp_path_factory.getbasetemp() / "any.pgmoplan"
    made = make_plan(profile)
    made.save(path)
    _assert_same(made, Plan.load(path))


@pytest.mark.parametrize(
    ("column", "row", "value", "message"),
    [
        ("size", 0, 2**62, "row 0: "),
        ("end", 2, 2**62, "row 2: end is"),
        ("end", 2, -(2**63), "row 2: end is"),
        ("offset", 0, 2**40, "row 0: offset is 1099511627776"),
        ("varying", 0, True, "fingerprint"),
        ("shorter", 1, -1, "row 1: shorter is -1, must be from 0 to the size"),
        ("shorter", 1, 2**40, "row 1: shorter is 1099511627776, must be"),
    ],
)
def test_columns_that_contradict_themselves(plan, fields, tmp_path, column, row, value, message):
    columns = {name: getattr(plan, name).copy() for name in COLUMNS}
    columns[column][row] = value
    write(tmp_path / "bad", "pgmoplan", FORMAT_VERSION, columns, fields)
    with pytest.raises(FileError, match=message) as caught:
        Plan.load(tmp_path / "bad")
    assert str(tmp_path / "bad") in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arena": 64}, "from 0 to the arena of 64 bytes"),
        ({"arena": -1}, "'arena' is -1"),
        ({"arena": 1.5}, "'arena' is 1.5, must be a whole number"),
        ({"alignment": 0}, "'alignment' is 0"),
        ({"max_load": 1}, "declares a max load of 1 bytes"),
        ({"seconds": -1.0}, "'seconds' is -1.0, must be from 0 to below 2"),
        ({"seconds": 10**400}, "'seconds'"),
        ({"seconds": "fast"}, "'seconds' is 'fast', must be a number"),
        ({"bound": 64}, "declares a bound of 64 bytes, must be from"),
        ({"bound": 2**40}, "declares a bound of 1099511627776 bytes, must be from"),
        ({"bound": None}, "'bound' is None, must be a whole number"),
        ({"resident": -1}, "'resident' is -1"),
        ({"resident": 2**40}, "declares 1099511627776 bytes on the device, in an arena of"),
        ({"resident": 100}, "wholly below or above 100"),
        ({"optimal": False}, "is called not optimal, with"),
        ({"optimal": "yes"}, "'optimal' is 'yes', must be true or false"),
        ({"solver": None}, "'solver' is None, must be a string"),
        ({"fingerprint": "0" * 64}, "fingerprint that its blocks do not have"),
        ({"ticks": 2**26}, "declares 67108864 ticks for 6 blocks"),
        ({"circular": False}, "row 1: end is 7"),
        ({"more": 1}, "field 'more' is not known"),
    ],
)
def test_fields_that_are_wrong(plan, fields, tmp_path, changes, message):
    columns = _columns(plan)
    write(tmp_path / "bad", "pgmoplan", FORMAT_VERSION, columns, {**fields, **changes})
    with pytest.raises(FileError, match=message):
        Plan.load(tmp_path / "bad")


def test_a_plan_that_spills_is_loaded_as_saved(tmp_path):
    spilling = make_plan(small_profile(), alignment=64, budget=least_budget(small_profile(), 64))
    assert spilling.spilled > 0
    spilling.save(tmp_path / "plan")
    _assert_same(Plan.load(tmp_path / "plan"), spilling)


def test_the_sizes_of_a_shorter_iteration_are_kept(plan, tmp_path):
    known = replace(plan, shorter=plan.size // 2)
    replace(known, others=(known,), opening=known).save(tmp_path / "plan")
    loaded = Plan.load(tmp_path / "plan")
    for one in (loaded, *loaded.inner):
        _assert_same(one, known)


@pytest.fixture(scope="module")
def program(plan):
    """Return a plan with other plans and an opening."""
    others = (make_plan(small_profile().widened([8192] * 6)), make_plan(_tiny(3)))
    return replace(plan, others=others, opening=make_plan(_tiny(1)))


def _tiny(blocks):
    at = np.arange(blocks)
    return Profile.from_columns(size=at + 1, start=at, end=at + 1, ticks=blocks)


def test_plans_of_one_program_come_in_one_file(program, tmp_path):
    program.save(tmp_path / "a.pgmoplan")
    loaded = Plan.load(tmp_path / "a.pgmoplan")
    _assert_same(loaded, program)
    assert len(loaded.others) == 2
    for one, other in zip(loaded.inner, program.inner, strict=True):
        _assert_same(one, other)
        assert one.inner == ()
    _assert_same(loaded.opening, program.opening)


@pytest.mark.parametrize("number", [0, 1, 9, 11])
def test_any_number_of_others_keeps_its_order(plan, tmp_path, number):
    others = tuple(make_plan(_tiny(blocks)) for blocks in range(1, number + 1))
    replace(plan, others=others).save(tmp_path / "a")
    assert [len(other) for other in Plan.load(tmp_path / "a").others] == list(range(1, number + 1))


@pytest.mark.parametrize("name", ["other-2", "opening"])
def test_each_plan_inside_is_checked(program, fields, tmp_path, name):
    path = tmp_path / "a.pgmoplan"
    columns = {column: getattr(program, column).copy() for column in COLUMNS}
    columns["alternate"][2] = columns["offset"][2]
    overlapping = pack("pgmoplan", FORMAT_VERSION, columns, fields)
    program.save(path)

    def put(inner):
        change = {f"{name}.pgmoplan": inner}
        path.write_bytes(rebuilt(path, lambda members: members.update(change)))

    put(overlapping)
    with pytest.raises(FileError, match=rf"a\.pgmoplan/{name}\.pgmoplan: blocks 2 and 2 overlap"):
        Plan.load(path)
    wrong = pack("pgmoplan", FORMAT_VERSION, _columns(program), {**fields, "max_load": 1})
    put(wrong)
    with pytest.raises(FileError, match=rf"/{name}\.pgmoplan: declares a max load of 1"):
        Plan.load(path)
    nested = pack("pgmoplan", FORMAT_VERSION, _columns(program), fields, {"other-1": wrong})
    put(nested)
    with pytest.raises(FileError, match=rf"/{name}\.pgmoplan: member 'other-1\.pgmoplan' is not"):
        Plan.load(path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("other-0", r"'other-0\.pgmoplan' is not part"),
        ("other-4", r"'other-4\.pgmoplan' is not part"),
        ("other-01", r"'other-01\.pgmoplan' is not part"),
        ("../other-3", r"'\.\./other-3\.pgmoplan' is not part"),
        ("", r"'\.pgmoplan' is not part"),
    ],
)
def test_plans_of_other_names(program, fields, tmp_path, name, message):
    path = tmp_path / "a.pgmoplan"
    program.save(path)
    opening = pack("pgmoplan", FORMAT_VERSION, _columns(program), fields)
    change = {f"{name}.pgmoplan": opening}
    path.write_bytes(rebuilt(path, lambda members: members.update(change)))
    with pytest.raises(FileError, match=message):
        Plan.load(path)


def test_a_plan_that_is_missing(program, tmp_path):
    path = tmp_path / "a.pgmoplan"
    program.save(path)
    path.write_bytes(rebuilt(path, lambda members: members.pop("other-1.pgmoplan")))
    with pytest.raises(FileError, match=r"member 'other-2\.pgmoplan' is not part"):
        Plan.load(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seconds": 2**62 - 1}, "'seconds' is 4.6"),
        ({"seconds": float("nan")}, "'seconds' is nan"),
        ({"max_load": 1}, "declares a max load of 1 bytes"),
        ({"fingerprint": "x"}, "declares a fingerprint"),
    ],
)
def test_a_plan_that_nothing_would_read_is_not_written(plan, tmp_path, changes, message):
    path = tmp_path / "a.pgmoplan"
    path.write_bytes(b"old")
    with pytest.raises(FileError, match=rf"{message}.*; nothing was written") as caught:
        write_plan(replace(plan, **changes), path)
    assert str(caught.value).startswith(str(path))
    assert path.read_bytes() == b"old"
    with pytest.raises(FileError, match=r"opening\.pgmoplan.*; nothing was written"):
        write_plan(replace(plan, opening=replace(plan, **changes)), path)
    assert path.read_bytes() == b"old"


def test_a_solver_of_an_odd_name_is_spelled(plan, tmp_path):
    write_plan(replace(plan, solver="a\ud800"), tmp_path / "a.pgmoplan")
    assert read_plan(tmp_path / "a.pgmoplan").solver == r"a\ud800"
