"""Options of pgmo's own behind the script's name."""

import argparse

import pytest

from pgmo.cli.after_script import take_options


def given(*words: str) -> argparse.Namespace:
    found = argparse.Namespace(command="fit", card="L4", cards=False, vary=None)
    found.arguments = list(words)
    take_options(found, question)
    return found


def question(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--card")
    parser.add_argument("--cards", action="store_true")
    parser.add_argument("--vary")


def test_what_is_not_there_stays_as_it_was():
    found = given("--lr", "1e-3", "data", "-v")
    assert (found.card, found.cards, found.vary) == ("L4", False, None)
    assert found.arguments == ["--lr", "1e-3", "data", "-v"]


def test_options_are_taken_from_between_those_of_the_script():
    found = given("--lr", "1e-3", "--card=T4", "data", "--vary", "--batch-size {}", "--cards", "-v")
    assert (found.card, found.cards, found.vary) == ("T4", True, "--batch-size {}")
    assert found.arguments == ["--lr", "1e-3", "data", "-v"]


@pytest.mark.parametrize("value", ["--batch_size={}", "-b={}", "--batch {}", "batch={}"])
def test_an_option_of_the_script_is_a_value(value):
    found = given("--vary", value, "--card", "T4", "--lr", "1e-3")
    assert (found.vary, found.card) == (value, "T4")
    assert found.arguments == ["--lr", "1e-3"]


def test_what_follows_two_dashes_is_the_scripts():
    found = given("--card", "T4", "--", "--card", "hearts", "--", "x")
    assert found.card == "T4"
    assert found.arguments == ["--card", "hearts", "--", "x"]


def test_names_are_not_guessed():
    found = given("--car", "T4", "--varying", "3")
    assert (found.card, found.vary) == ("L4", None)
    assert found.arguments == ["--car", "T4", "--varying", "3"]


def test_a_missing_value_is_told_like_any_wrong_command_line(capsys):
    with pytest.raises(SystemExit) as ended:
        given("--card")
    assert ended.value.code == 2
    assert "--card" in capsys.readouterr().err
