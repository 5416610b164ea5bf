import pytest

from pgmo.errors import FileError
from pgmo.packing.planner import plan
from pgmo.report.gate.gate import compare_states
from pgmo.report.gate.tolerance import Tolerance
from tests.unit.report.gate.states import state


def save(folder, **states):
    for name, profile in states.items():
        path = folder / f"{name.replace('__', '/')}.pgmoprof"
        path.parent.mkdir(parents=True, exist_ok=True)
        profile.save(path)
    return folder


def test_two_folders_are_compared_by_name(tmp_path):
    base = save(tmp_path / "base", tests__net=state(), old=state(), same=state())
    new = save(tmp_path / "new", tests__net=state(4000), fresh=state(), same=state())
    gate = compare_states(new, base, Tolerance())
    assert [(one.name, one.failed) for one in gate.programs] == [
        ("same", False),
        ("tests/net", True),
    ]
    assert (gate.new, gate.gone) == (("fresh",), ("old",))
    assert not gate.passed


def test_a_program_that_is_gone_fails_and_a_new_one_does_not(tmp_path):
    one = save(tmp_path / "one", a=state())
    two = save(tmp_path / "two", a=state(), b=state())
    assert compare_states(two, one, Tolerance()).passed
    assert not compare_states(one, two, Tolerance()).passed


def test_a_profile_is_taken_before_its_plan(tmp_path):
    base, new = save(tmp_path / "base", a=state()), save(tmp_path / "new", a=state(4000))
    plan(state()).save(base / "a.pgmoplan")
    plan(state(4000)).save(new / "a.pgmoplan")
    (program,) = compare_states(new, base, Tolerance()).programs
    assert program.figures[0].grown


def test_paths_that_cannot_be_compared_are_errors(tmp_path):
    folder = save(tmp_path / "base", a=state())
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(FileError, match=r"is a folder and .* is not"):
        compare_states(folder, folder / "a.pgmoprof", Tolerance())
    with pytest.raises(FileError, match=r"neither .* has a file"):
        compare_states(empty, empty, Tolerance())
    (tmp_path / "a.txt").touch()
    with pytest.raises(FileError, match="give a file that ends with"):
        compare_states(tmp_path / "a.txt", folder / "a.pgmoprof", Tolerance())
