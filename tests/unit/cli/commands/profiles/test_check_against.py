import json
import os
import shutil

import pytest

from pgmo.cli.main import main
from pgmo.packing.planner import plan
from tests.unit.report.gate.states import state


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    state().save("base.pgmoprof")
    state().save("same.pgmoprof")
    state(4000).save("more.pgmoprof")


def against(new, *options):
    return main(["check", f"{new}.pgmoprof", "--against", "base.pgmoprof", *options])


def test_exit_codes(files, capsys):
    assert against("same") == 0
    assert against("more") == 3
    assert against("more", "--tolerance", "30%") == 0
    assert against("none") == 1
    assert against("more", "--tolerance", "lots") == 2
    assert "cannot read 'lots' as a tolerance" in capsys.readouterr().err


def test_json_is_one_value(files, capsys):
    assert against("more", "--json") == 3
    reported = json.loads(capsys.readouterr().out)
    assert (reported["passed"], reported["tolerance"]) == (False, "1 %")
    load = reported["programs"][0]["figures"][0]
    assert (load["before"], load["after"], load["limit"]) == (4000, 5000, 4040)
    assert load["grown"][0]["name"] == "Net.b"


def test_files_for_others(files, capsys, tmp_path):
    assert against("more", "--markdown", "memory.md") == 3
    assert (tmp_path / "memory.md").read_text().startswith("### Memory\n")
    assert "Wrote memory.md" in capsys.readouterr().err
    assert against("more", "--markdown", "memory.md") == 1
    assert against("same", "--markdown", "memory.md", "--force") == 0


def test_options_that_do_not_go_together(files, capsys):
    plan(state()).save("a.pgmoplan")
    assert main(["check", "a.pgmoplan", "a.pgmoprof", "--against", "base.pgmoprof"]) == 2
    assert "--against" in capsys.readouterr().err


def test_odd_names_are_in_files_for_others(files, tmp_path):
    name = os.fsdecode(b"caf\xe9")
    shutil.copy("more.pgmoprof", f"{name}.pgmoprof")
    assert against(name, "--markdown", "memory.md") == 3
    assert "`caf?`" in (tmp_path / "memory.md").read_text()


@pytest.mark.parametrize(
    "words",
    [
        ["more.pgmoprof", "--against", ""],
        ["same.pgmoprof", "--against", "base.pgmoprof", "--markdown", ""],
        ["a.pgmoplan", ""],
    ],
)
def test_a_name_that_is_empty_checks_nothing_less(words, files, refused):
    plan(state()).save("a.pgmoplan")
    assert "is empty; name a file" in refused("check", *words, code=2)
