"""Tests of the line that `pgmo run` shows on a terminal."""

import io
import sys
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace

import pytest

from pgmo.allocator.session.statistics import IterationStatistics, Phase
from pgmo.allocator.session.verdict.growth import LiveGrowth
from pgmo.allocator.session.verdict.summary import Summary
from pgmo.cli.terminal.run_line import RunLine, describe


class Terminal(io.StringIO):
    def isatty(self):
        return True


class FakeSession:
    """The part of a session that the line uses."""

    device = "cpu"
    phase = Phase.REPLAY

    def __init__(self, iterations=7):
        self.history = [IterationStatistics(Phase.REPLAY, 200, 199, 400, 390)]
        self._summary = Summary(
            iterations=iterations, recorded=4, replayed=3, arena=2 << 20, peak_slot_bytes=3 << 20
        )

    @property
    def history_end(self):
        return self.history[-1]

    def counted(self):
        return self._summary


class FakeSupervision:
    def __init__(self, *sessions):
        self.sessions = sessions


SUPERVISION = FakeSupervision(FakeSession())
LINE = "iteration 7 · replay · hits 99.5% · arena 2.00 MiB · peak 3.00 MiB"


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    return Terminal()


@contextmanager
def run_line(terminal, **options):
    """Yield a line on a terminal to which the script prints, too."""
    with redirect_stdout(terminal), redirect_stderr(terminal), RunLine(**options) as line:
        yield line


def screen(text):
    """Return the lines that a terminal shows after all of a text."""
    shown = [""]
    for part in text.replace("\r\x1b[2K", "\x00").replace("\x1b[1m", "").replace("\x1b[2m", ""):
        if part == "\x00":
            shown[-1] = ""
        elif part == "\n":
            shown.append("")
        else:
            shown[-1] += part
    return [line.replace("\x1b[0m", "") for line in shown]


def test_it_says_that_live_memory_grows():
    session = FakeSession()
    session._summary = replace(session._summary, growth=LiveGrowth(3 << 20, 30 << 20, 10))
    (line,) = describe(FakeSupervision(session))
    assert line.endswith(" · grows 3.00 MiB an iteration")


def test_nothing_is_said_before_the_first_iteration():
    assert describe(FakeSupervision(FakeSession(iterations=0))) == []


def test_it_is_the_last_line_while_the_script_runs(terminal):
    with run_line(terminal) as line:
        print("epoch 1")
        line.update(SUPERVISION)
        assert screen(terminal.getvalue()) == ["epoch 1", f"pgmo {LINE}"]
        print("epoch 2")
        assert screen(terminal.getvalue()) == ["epoch 1", "epoch 2", ""]


def test_it_is_gone_in_the_end_and_the_streams_are_given_back(terminal):
    with redirect_stdout(terminal), redirect_stderr(terminal):
        with RunLine() as line:
            assert sys.stdout is not terminal
            line.update(SUPERVISION)
        assert sys.stdout is terminal
        assert sys.stderr is terminal
    assert screen(terminal.getvalue()) == [""]


def test_a_line_that_the_script_has_begun_is_left_alone(terminal):
    with run_line(terminal) as line:
        print("50 %", end="", file=sys.stderr)
        line.update(SUPERVISION)
        print("\r60 %", end="", file=sys.stderr)
        assert terminal.getvalue() == "50 %\r60 %"
        print(" done")
        line.update(SUPERVISION)
        assert LINE in screen(terminal.getvalue())[-1]


def test_without_colours_no_escapes_are_written(terminal, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    with run_line(terminal) as line:
        line.update(SUPERVISION)
        assert terminal.getvalue().endswith(f"pgmo {LINE}"[:79])
        print("epoch 2")
    assert "\x1b" not in terminal.getvalue()
    erased = "\r" + " " * 79 + "\r"
    assert terminal.getvalue().count(erased) == 2  # before the script's line, and at the end
    assert f"{erased}epoch 2\n" in terminal.getvalue()


def test_updates_come_at_most_five_times_a_second(terminal, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("pgmo.cli.terminal.run_line.time.monotonic", lambda: now[0])
    with run_line(terminal) as line:
        for _ in range(100):
            now[0] += 0.01
            line.update(SUPERVISION)
        assert 4 <= terminal.getvalue().count("iteration") <= 6


def test_nothing_is_shown_and_exchanged_without_a_terminal(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    out = sys.stdout
    with RunLine() as line:
        assert sys.stderr is stream
        assert sys.stdout is out
        line.update(SUPERVISION)
    assert stream.getvalue() == ""


def test_quiet_shows_nothing(terminal):
    with run_line(terminal, quiet=True) as line:
        assert sys.stdout is terminal
        line.update(SUPERVISION)
    assert terminal.getvalue() == ""


def test_a_stream_that_gives_way_is_still_the_stream(terminal):
    with run_line(terminal):
        assert sys.stdout.isatty()
        sys.stdout.writelines(["a\n", "b\n"])
        assert sys.stdout.write("c") == 1
    assert terminal.getvalue() == "a\nb\nc"


def test_without_a_terminal_live_writes_a_line_now_and_then(monkeypatch):
    stream, now = io.StringIO(), [100.0]
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr("pgmo.cli.terminal.run_line.time.monotonic", lambda: now[0])
    with RunLine(live=True) as line:
        assert sys.stderr is stream
        for _ in range(70):
            now[0] += 1
            line.update(SUPERVISION)
    assert stream.getvalue() == f"pgmo: {LINE}\n" * 3  # after 5, 35 and 65 s


def test_live_shows_the_line_of_a_quiet_run(terminal):
    with run_line(terminal, quiet=True, live=True) as line:
        line.update(SUPERVISION)
        assert LINE in screen(terminal.getvalue())[-1]
