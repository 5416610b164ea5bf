"""Tests of the licences of code that is compiled or copied into a wheel."""

import tomllib
from importlib.metadata import files
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_notice_of_pybind11_is_its_own():
    pytest.importorskip("pybind11")
    (theirs,) = [path for path in files("pybind11") or () if path.name == "LICENSE"]
    ours = ROOT / "packaging" / "licenses" / "pybind11.LICENSE"
    assert ours.read_text() == theirs.read_text()


def test_each_notice_goes_into_the_wheel():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    taken = {path for pattern in project["license-files"] for path in ROOT.glob(pattern)}
    there = {
        path for folder in ("pgmo", "packaging") for path in (ROOT / folder).rglob("*.LICENSE")
    }
    assert there <= taken
    assert len(there) == project["license"].count(" AND ")
