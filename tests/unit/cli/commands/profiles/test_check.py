from dataclasses import replace

import numpy as np
import pytest

from pgmo.cli.main import main
from pgmo.packing.plan import Plan
from pgmo.packing.planner import plan
from pgmo.profiler.profile import Profile


@pytest.fixture
def files(tmp_path):
    profile = Profile.from_columns(size=[1000, 3000], start=[0, 1], end=[2, 3], ticks=2)
    source, target = tmp_path / "net.pgmoprof", tmp_path / "net.pgmoplan"
    profile.save(source)
    plan(profile).save(target)
    return target, source


def test_a_good_plan(files, capsys):
    target, source = files
    assert main(["check", str(target), str(source)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("ok") for line in lines[:-1])
    assert lines[-1] == f"{target}: valid"


def test_an_overlap_is_exit_code_3_with_what_and_where(files, capsys, monkeypatch):
    target, _ = files
    # pgmo itself refuses to write an invalid plan.
    monkeypatch.setattr("pgmo.packing.plan_file._check", lambda *_: None)
    replace(Plan.load(target), offset=np.array([0, 0])).save(target)
    monkeypatch.undo()
    assert main(["check", str(target)]) == 3
    shown = capsys.readouterr().out
    assert "FAILED  slots: blocks 0 and 1 overlap at tick " in shown
    assert shown.endswith("1 of 4 checks FAILED\n")


def test_another_profile_is_exit_code_3(files, tmp_path, capsys):
    other = tmp_path / "other.pgmoprof"
    Profile.from_columns(size=[1000, 3001], start=[0, 1], end=[2, 3], ticks=2).save(other)
    assert main(["check", str(files[0]), str(other)]) == 3
    assert "row 1: size is 3000 in the plan, 3001 in the profile" in capsys.readouterr().out


def test_one_object_for_continuous_integration(files, reported):
    fields = reported("check", str(files[0]))
    assert (fields["passed"], fields["arena"]) == (True, Plan.load(files[0]).arena)
    assert all(check["passed"] for check in fields["checks"])


def test_unreadable_plans_are_exit_code_1(files, tmp_path):
    assert main(["check", str(tmp_path / "none.pgmoplan")]) == 1
    data = files[0].read_bytes()
    files[0].write_bytes(data[: len(data) // 2])
    assert main(["check", str(files[0])]) == 1
    assert main(["check", str(files[1])]) == 1
