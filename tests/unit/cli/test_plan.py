import json

import pytest

from pgmo.cli.main import main
from pgmo.packing.plan import Plan
from pgmo.profiler.profile import Profile


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "net.pgmoprof"
    Profile.from_columns(size=[1000, 3000], start=[0, 1], end=[2, 3], ticks=2).save(path)
    return path


def test_a_plan_is_written_next_to_its_profile(source, capsys):
    assert main(["plan", str(source)]) == 0
    target = source.with_suffix(".pgmoplan")
    plan = Plan.load(target)
    assert plan.fingerprint == Profile.load(source).fingerprint
    assert plan.arena >= plan.max_load >= 4000
    captured = capsys.readouterr()
    assert "arena" in captured.out
    assert captured.err == f"Wrote {target}\nNext: pgmo stats {target}\n"


def test_json_and_another_place(source, tmp_path, capsys):
    target = tmp_path / "other.pgmoplan"
    assert main(["plan", str(source), "-o", str(target), "--json"]) == 0
    fields = json.loads(capsys.readouterr().out)
    assert fields["file"] == str(target)
    assert fields["arena"] == Plan.load(target).arena


def test_an_old_plan_is_kept_unless_forced(source, capsys):
    target = source.with_suffix(".pgmoplan")
    target.write_text("precious")
    assert main(["plan", str(source)]) == 1
    assert "exists already" in capsys.readouterr().err
    assert target.read_text() == "precious"
    assert main(["plan", str(source), "--force"]) == 0
    assert len(Plan.load(target)) == 2
