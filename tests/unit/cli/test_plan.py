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


def failure(arguments, capsys):
    """The one line that a failing `pgmo plan` writes."""
    assert main(["plan", *map(str, arguments)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("pgmo plan: ")
    return captured.err


@pytest.mark.parametrize("profile", ["", "/", ".", "\0"])
def test_a_profile_that_is_no_file(profile, capsys):
    assert "check the path" in failure([profile], capsys)


def test_a_profile_that_is_a_folder_or_not_a_profile(tmp_path, capsys):
    folder, text = tmp_path / "folder.pgmoprof", tmp_path / "text.pgmoprof"
    folder.mkdir()
    text.write_text("no archive")
    assert "is not a regular file; check the path" in failure([folder], capsys)
    assert "does not begin like a pgmo file" in failure([text], capsys)
    # Told even where an old plan lies beside it.
    folder.with_suffix(".pgmoplan").touch()
    assert "is not a regular file" in failure([folder], capsys)


def test_an_output_that_cannot_be_written(source, tmp_path, capsys):
    missing, folder, taken = (tmp_path / name for name in ("no/x.pgmoplan", "folder", "taken"))
    folder.mkdir()
    taken.touch()
    assert "(No such file or directory, " in failure([source, "-o", missing], capsys)
    assert "exists already" in failure([source, "-o", folder], capsys)
    assert "is not a regular file" in failure([source, "-o", folder, "-f"], capsys)
    assert "(Not a directory, " in failure([source, "-o", taken / "x.pgmoplan"], capsys)
    for force in ([], ["-f"]):
        assert "too long" in failure([source, "-o", tmp_path / ("n" * 300), *force], capsys)


def test_a_plan_never_replaces_its_own_profile(source, tmp_path, capsys):
    link = tmp_path / "link.pgmoplan"
    link.symlink_to(source)
    for target in (source, link):
        assert "would replace its own profile" in failure([source, "-o", target, "-f"], capsys)
    misnamed = source.rename(tmp_path / "misnamed.pgmoplan")
    assert "would replace its own profile" in failure([misnamed, "-f"], capsys)
    assert len(Profile.load(misnamed)) == 2
