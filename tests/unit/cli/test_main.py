import subprocess
import sys

import pytest

from pgmo.cli.main import COMMANDS, main
from pgmo.errors import PgmoError
from pgmo.version import __version__


def test_version(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"pgmo {__version__}\n"


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert all(f"\n    {command} " in shown for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_from_its_docstring(command, capsys):
    module = __import__(f"pgmo.cli.{command}", fromlist=["run"])
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert module.__doc__.partition("\n")[0] in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [[], ["bake"], ["stats"], ["demo", "--lengths", "odd"]])
def test_a_wrong_command_line_is_usage_and_exits_2(wrong, capsys):
    with pytest.raises(SystemExit) as ended:
        main(wrong)
    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_an_error_is_one_clean_message_and_exits_1(tmp_path, capsys):
    assert main(["stats", str(tmp_path / "none.pgmoprof")]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("pgmo stats: ")
    assert captured.err.count("\n") == 1


def test_other_exceptions_are_not_hidden(monkeypatch):
    def broken(arguments):
        raise ZeroDivisionError

    monkeypatch.setattr("pgmo.cli.stats.run", broken)
    with pytest.raises(ZeroDivisionError):
        main(["stats", "x"])


def test_an_interrupt_exits_130(monkeypatch, capsys):
    def interrupted(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("pgmo.cli.stats.run", interrupted)
    assert main(["stats", "x"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize("arguments", [["--no-color", "stats", "x"], ["stats", "x", "--no-color"]])
def test_no_color_works_before_and_after_the_command(arguments, monkeypatch):
    seen = []

    def failing(parsed):
        seen.append(parsed.no_color)
        raise PgmoError("seen enough")

    monkeypatch.setattr("pgmo.cli.stats.run", failing)
    monkeypatch.setenv("NO_COLOR", "")
    assert main(arguments) == 1
    assert seen == [True]


def test_help_opens_neither_torch_nor_rich():
    code = (
        "import sys\nfrom pgmo.cli.main import build_parser\nbuild_parser().format_help()\n"
        "sys.exit(bool({'torch', 'rich'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_python_m_pgmo_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "pgmo", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"pgmo {__version__}\n"
