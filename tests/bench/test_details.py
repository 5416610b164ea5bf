"""Tests that bench/details.md has the tables that the scripts print from the committed results."""

import runpy
import sys

import pytest

from tests.bench.scripts import BENCH, all_scripts

WITHOUT_TABLES = ("cpu_training", "engine")


@pytest.mark.parametrize("name", [one for one in all_scripts() if one not in WITHOUT_TABLES])
def test_tables_of_a_script(name, monkeypatch, capsys):
    pytest.importorskip("torch")
    monkeypatch.setattr(sys, "argv", [name, "--table"])
    runpy.run_path(str(BENCH / f"{name}.py"), run_name="__main__")
    page = (BENCH / "details.md").read_text(encoding="utf-8")
    assert f"python bench/{name}.py --table" in page
    printed = capsys.readouterr().out.strip()
    assert [part for part in printed.split("\n\n") if part not in page] == []
