import io

from rich.console import Console

from pgmo.cli.terminal import incumbents
from pgmo.cli.terminal.incumbents import IncumbentLine
from pgmo.packing.solving.result import Incumbent

EVENT = Incumbent(0.5, arena=3 << 20, bound=2 << 20, solver="search")


def test_a_terminal_sees_arena_bound_and_gap(monkeypatch):
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=100, color_system=None)
    monkeypatch.setattr(incumbents, "console", lambda stderr: terminal)
    monkeypatch.setattr(incumbents, "watched", lambda: True)
    with IncumbentLine() as line:
        line.show(EVENT)
    assert "arena 3.00 MiB, bound 2.00 MiB, 50.00% above it, by search" in screen.getvalue()


def test_a_pipe_sees_nothing(capsys):
    with IncumbentLine() as line:
        line.show(EVENT)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
