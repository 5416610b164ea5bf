import importlib
import subprocess
import sys

import pytest

from pgmo.cli.catalog import COMMANDS, STAGES, module_of
from pgmo.cli.main import main
from pgmo.version import __version__


def test_version(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"pgmo {__version__}\n"


def test_help_lists_commands_in_the_order_of_a_users_work(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    places = [shown.index(f"\n{title}:\n") for title in STAGES.values()]
    assert places == sorted(places)
    assert set(COMMANDS.values()) <= STAGES.keys()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_from_its_docstring(command, capsys):
    module = importlib.import_module(module_of(command))
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert module.__doc__.partition("\n")[0] in capsys.readouterr().out


def test_other_exceptions_are_not_hidden(monkeypatch):
    def broken(arguments):
        raise ZeroDivisionError

    monkeypatch.setattr("pgmo.cli.commands.profiles.stats.run", broken)
    with pytest.raises(ZeroDivisionError):
        main(["stats", "x"])


def loaded_by(code):
    """Return the names of the modules that a new interpreter has loaded after some code."""
    code += "\nimport sys\nprint('\\n' + ' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_help_loads_no_command_and_nothing_heavy():
    loaded = loaded_by("from pgmo.cli.parser import build_parser\nbuild_parser().format_help()")
    assert not loaded & {"numpy", "torch", "rich", "pgmo._core"}
    assert not loaded & {module_of(command) for command in COMMANDS}


def test_a_command_loads_no_other():
    loaded = loaded_by(
        "from pgmo.cli.parser import build_parser\nbuild_parser().parse_args(['stats', 'x'])"
    )
    assert loaded & {module_of(command) for command in COMMANDS} == {
        "pgmo.cli.commands.profiles.stats"
    }
    assert not loaded & {"numpy", "torch", "rich", "pgmo._core"}
