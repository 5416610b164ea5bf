import json

import pytest

from pgmo.cli.main import main
from pgmo.packing.planner import plan
from pgmo.profiler.profile import Profile

FORMATS = {
    "csv": "net.csv",
    "perfetto": "net.perfetto.json",
}


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "net.pgmoprof"
    Profile.from_columns(
        size=[1000, 3000, 500, 2000], start=[0, 1, 2, 3], end=[2, 3, 4, 4], ticks=4
    ).save(path)
    return path


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("suffix", [".pgmoprof", ".pgmoplan"])
def test_each_format_is_written_next_to_its_source(to, suffix, source, run):
    plan(Profile.load(source)).save(source.with_suffix(".pgmoplan"))
    source = source.with_suffix(suffix)
    target = source.with_name(FORMATS[to])
    captured = run("export", source, "--to", to)
    assert captured.out == ""
    assert f"Wrote {target}\nNext: " in captured.err
    text = target.read_text()
    assert "3000" in text or "3008" in text  # the largest block, exact or rounded up
    if target.suffix == ".json":
        json.loads(text)


@pytest.mark.parametrize("to", FORMATS)
def test_stdout_gets_what_a_file_would(to, source, tmp_path, capsys, run):
    target = tmp_path / "out"
    assert main(["export", str(source), "--to", to, "-o", str(target)]) == 0
    capsys.readouterr()
    captured = run("export", source, "--to", to, "-o", "-")
    assert captured.out == target.read_text()
    assert "Wrote" not in captured.err


def test_plans_inside_of_a_plan_are_mentioned(source, tmp_path, capsys):
    from dataclasses import replace

    one = plan(Profile.load(source))
    path = tmp_path / "both.pgmoplan"
    replace(one, others=(one,)).save(path)
    assert main(["export", str(path), "--to", "csv", "-o", "-"]) == 0
    assert capsys.readouterr().err == (
        "Note: only the main plan is written; further plans in the file: 1\n"
    )


def test_a_format_that_was_removed_names_what_to_use(source, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["export", str(source), "--to", "speedscope"])
    assert ended.value.code == 2
    assert "speedscope was removed; `pgmo report` shows the peak" in capsys.readouterr().err


def test_json_describes_the_file(source, capsys, reported):
    target = source.with_name("net.csv")
    assert reported("export", source, "--to", "csv") == {
        "file": str(target),
        "format": "csv",
        "bytes": target.stat().st_size,
        "blocks": 4,
        "notes": [],
    }
    assert main(["export", str(source), "--to", "csv", "--json", "-o", "-"]) == 2
    assert "cannot both go to stdout" in capsys.readouterr().err
