import json
import os
import re
from pathlib import Path

import pytest

from pgmo.cli.main import main
from pgmo.packing.planner import plan
from pgmo.profiler.profile import Profile, ProfileMeta
from tests.unit.report.page.test_packed import unpack


@pytest.fixture(autouse=True)
def linux(monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "net.pgmoprof"
    profile(64).save(path)
    return path


def profile(size: int, model: str = "") -> Profile:
    meta = ProfileMeta(model=model)
    return Profile.from_columns(size=[size, 32], start=[0, 1], end=[2, 3], ticks=2, meta=meta)


def test_a_page_is_written_next_to_the_profile(source, capsys):
    assert main(["report", str(source)]) == 0
    target = source.with_suffix(".html")
    assert "<h1>net</h1>" in target.read_text(encoding="utf-8")
    said = capsys.readouterr().err
    assert f"pgmo plan {source}`" in said
    assert said.endswith(f"Wrote {target}\nNext: xdg-open {target}\n")


def test_the_title_is_the_models_name_or_the_one_that_is_given(source, tmp_path):
    profile(64, model="GPT").save(source)
    target = tmp_path / "page.html"
    assert main(["report", str(source), "-o", str(target)]) == 0
    assert "<h1>GPT</h1>" in target.read_text(encoding="utf-8")
    assert main(["report", str(source), "-o", str(target), "-f", "--title", "Mine"]) == 0
    assert "<h1>Mine</h1>" in target.read_text(encoding="utf-8")


def test_names_that_are_no_unicode_can_be_written(tmp_path):
    source = tmp_path / os.fsdecode(b"net-\xff.pgmoprof")
    profile(64).save(source)
    assert main(["report", str(source), "-o", str(tmp_path / "page.html")]) == 0
    assert "<h1>net-?</h1>" in (tmp_path / "page.html").read_text(encoding="utf-8")


def alignment_of(page) -> int:
    header, _ = unpack(re.search(r'id="data">([^<]*)<', page.read_text(encoding="utf-8"))[1])
    return header["alignment"]


def test_the_plan_next_to_the_profile_is_shown_unless_another_is_given(
    source, tmp_path, capsys, refused
):
    page, other = source.with_suffix(".html"), tmp_path / "other.pgmoplan"
    plan(profile(64), alignment=256).save(source.with_suffix(".pgmoplan"))
    plan(profile(64), alignment=1024).save(other)
    assert main(["report", str(source)]) == 0
    assert alignment_of(page) == 256
    assert capsys.readouterr().err == f"Wrote {page}\nNext: xdg-open {page}\n"
    assert main(["report", str(source), "--plan", str(other), "-f"]) == 0
    assert alignment_of(page) == 1024
    plan(profile(128)).save(other)
    assert "another profile" in refused("report", source, "--plan", other, "-f")


def test_a_plan_next_to_it_that_is_of_another_profile_or_broken_is_not_shown(source, run):
    beside = source.with_suffix(".pgmoplan")
    plan(profile(128)).save(beside)
    said = run("report", source).err
    assert f"{beside} belongs to another profile" in said
    assert f"`pgmo plan {source} --force`" in said
    beside.write_bytes(b"PK")
    said = run("report", source, "-f").err
    assert str(beside) in said
    assert "plan of the fast packers" in said


def test_a_page_can_go_to_stdout(source, monkeypatch, run):
    monkeypatch.chdir(source.parent)
    said = run("report", source, "-o", "-")
    assert said.out.startswith("<!doctype html>")
    assert "Wrote" not in said.err
    assert not Path("-").exists()


def test_a_wrong_input_is_reported_before_an_existing_page(source, refused):
    other = source.with_name("net.pgmoplan")
    plan(profile(64)).save(other)
    source.with_suffix(".html").write_text("mine")
    assert "give the profile" in refused("report", other)


def test_json_describes_the_page(source, capsys, refused):
    plan(Profile.load(source)).save(source.with_suffix(".pgmoplan"))
    assert main(["report", str(source), "--json"]) == 0
    target = source.with_suffix(".html")
    reported = json.loads(capsys.readouterr().out)
    assert reported == {
        "file": str(target),
        "bytes": target.stat().st_size,
        "blocks": 2,
        "max_load": 96,
        "arena": 128,
        "pools": None,
    }
    assert "cannot both go to stdout" in refused("report", source, "--json", "-o", "-", code=2)
