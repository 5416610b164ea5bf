"""Tests that arguments behind a script's name are passed to the script."""

import argparse
from pathlib import Path

import pytest

from pgmo.cli.after_script import check_arguments
from pgmo.errors import OptionError


def given(*words: str, script: str = "train.py", is_module: bool = False) -> list[str]:
    found = argparse.Namespace(command="fit", script=script, is_module=is_module)
    found.arguments = list(words)
    check_arguments(found, question)
    arguments: list[str] = found.arguments
    return arguments


def question(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--card")
    parser.add_argument("--vary")
    parser.add_argument("--what-if", action="store_true")


def test_arguments_of_the_script_stay_as_they_are():
    words = ["--lr", "1e-3", "data", "-v", "--car", "T4", "--varying", "3"]
    assert given(*words) == words


@pytest.mark.parametrize(
    "words", [["--card", "T4"], ["--lr", "1", "--card=T4"], ["--vary", "-b {}"], ["--what-if"]]
)
def test_options_of_pgmo_belong_before_the_script(words):
    with pytest.raises(OptionError, match=r"belongs before the script: pgmo fit --\S+ \.\.\. tr"):
        given(*words)


def test_arguments_after_two_dashes_belong_to_the_script():
    assert given("-v", "--", "--card", "hearts", "--", "x") == ["-v", "--card", "hearts", "--", "x"]


def test_two_dashes_of_the_script_stay():
    assert given("run", "--", "-x", "--", "y") == ["run", "--", "-x", "--", "y"]
    assert given("--", "-x", "--", "y") == ["-x", "--", "y"]


def test_a_package_that_raises_mentions_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pgmo_raises").mkdir()
    (tmp_path / "pgmo_raises" / "__init__.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(OptionError, match="--card"):
        given("--card", "T4", script="pgmo_raises.module", is_module=True)


@pytest.mark.parametrize("code", ["add('--what-if')", "class Given:\n    what_if: bool"])
def test_an_option_that_the_script_mentions_is_its_own(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pgmo_mentions.py"
    path.write_text(code)
    assert given("--what-if", script=str(path)) == ["--what-if"]
    with pytest.raises(OptionError, match="--card"):
        given("--card", "T4", script=str(path))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert given("--what-if", script="pgmo_mentions", is_module=True) == ["--what-if"]
    with pytest.raises(OptionError):
        given("--what-if", script="pgmo_absent.module", is_module=True)
