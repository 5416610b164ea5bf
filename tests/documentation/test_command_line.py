import pytest

from docs.extensions.command_line import reference
from pgmo.cli.catalog import COMMANDS, STAGES
from pgmo.cli.parser import build_parser, parsers_of


def sections():
    """Return the text of each command's section."""
    parts = reference().split("\n### `pgmo ")[1:]
    return {part.partition("`")[0]: part.split("\n## ")[0] for part in parts}


def test_every_command_and_all_of_its_options():
    documented = sections()
    assert set(documented) == set(COMMANDS)
    for name, parser in parsers_of(build_parser(fill=True)).items():
        for action in parser._actions:
            for option in action.option_strings:
                hidden = action.help == "==SUPPRESS=="
                assert (f"`{option}" in documented[name]) is not hidden, (name, option)
        assert parser.description.partition("\n")[0] in documented[name]


def test_commands_are_grouped_by_stage():
    text = reference()
    places = [text.index(f"\n## {title}\n") for title in STAGES.values()]
    assert places == sorted(places)


@pytest.mark.parametrize("columns", ["20", "200"])
def test_it_does_not_depend_on_the_terminal(columns, monkeypatch):
    before = reference()
    monkeypatch.setenv("COLUMNS", columns)
    assert reference() == before


def test_cells_and_columns_survive_markdown(monkeypatch):
    import sys
    from types import SimpleNamespace

    def add_arguments(parser):
        parser.add_argument("--odd", default=3, help="a|b (default: %(default)s)")
        parser.add_argument("--pick", choices=("x", "y"), help="one")

    odd = SimpleNamespace(
        __doc__="Do it.\n\nfirst   one\nsecond  two\n\nA paragraph\nof text.",
        add_arguments=add_arguments,
        run=None,
    )
    monkeypatch.setitem(sys.modules, "pgmo.cli.commands.profiles.odd", odd)
    monkeypatch.setitem(COMMANDS, "odd", "profiles")
    monkeypatch.setattr("pgmo.cli.parser.summary_of", lambda name: "Do it")
    text = sections()["odd"]
    assert "| `--odd ODD` | a\\|b (default: 3) |" in text
    assert "| `--pick x or y` | one |" in text
    assert "```text\nfirst   one\nsecond  two\n```" in text
    assert "\n\nA paragraph\nof text.\n\n" in text
