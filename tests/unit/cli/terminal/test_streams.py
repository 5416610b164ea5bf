"""Tests with streams that are full, closed or not read to the end, and with plain terminals."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import pgmo
from pgmo.profiler.profile import Profile

PGMO = [sys.executable, "-m", "pgmo"]
NETWORK = 200


@pytest.fixture
def files(tmp_path):
    profile = Profile.from_columns(
        size=[64] * NETWORK,
        start=list(range(NETWORK)),
        end=[start + 3 for start in range(NETWORK)],
        ticks=NETWORK,
    )
    profile.save(tmp_path / "net.pgmoprof")
    pgmo.plan(profile).save(tmp_path / "net.pgmoplan")
    return tmp_path


def environment(**more):
    root = str(Path(pgmo.__file__).parents[1])
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}
    return {**kept, "PYTHONPATH": root, "TERM": "xterm", **more}


def shell(folder, command, **more):
    """Run a line of bash in which `pgmo` runs the package under test."""
    line = f'pgmo() {{ {" ".join(PGMO)} "$@"; }}\n{command}'
    return subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env=environment(**more),
        capture_output=True,
        text=True,
        check=False,
    )


WITH_RESULTS = [
    "stats net.pgmoprof",  # printed by rich
    "stats net.pgmoprof --json",
    "check net.pgmoplan",
    "export net.pgmoprof --to csv -o -",
]
COMMANDS = [*WITH_RESULTS, "--help", "plan --help"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_stdout_is_one_sentence(command, files):
    done = shell(files, f"pgmo {command} > /dev/full")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert done.stderr.splitlines()[-1] == (
        "pgmo: the result cannot be written to stdout: No space left on device"
    )


@pytest.mark.parametrize("command", WITH_RESULTS)
def test_a_closed_stdout_is_one_sentence(command, files):
    done = shell(files, f"pgmo {command} >&-")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        1,
        "pgmo: the result cannot be written to stdout: it is closed",
    )
    assert "Traceback" not in done.stderr


def test_a_reader_that_leaves_is_nothing_to_talk_about(files):
    # The reader ends before the command writes its first line.
    for command in WITH_RESULTS:
        done = shell(
            files, f"{{ sleep 0.1; exec 2>err; pgmo {command}; echo $? >&3; }} 3>code | true"
        )
        assert done.returncode == 0
        for _ in range(600):
            if (files / "code").read_text():
                break
            subprocess.run(["sleep", "0.1"], check=True)
        assert (files / "code").read_text() == "141\n", command
        assert "Traceback" not in (files / "err").read_text()
        assert "Exception ignored" not in (files / "err").read_text()


def test_a_stderr_that_takes_nothing_changes_nothing(files):
    for where in ("2>/dev/full", "2>&-"):
        done = shell(files, f"pgmo stats net.pgmoprof {where}")
        assert done.returncode == 0
        assert done.stdout.startswith("profile")
        assert "Next" not in done.stdout
        assert shell(files, f"pgmo plan net.pgmoprof -f {where}").returncode == 0
        done = shell(files, f"pgmo stats none.pgmoprof {where}")
        assert (done.returncode, done.stdout) == (1, "")
        assert shell(files, f"pgmo stats net.pgmoprof --top 0 {where}").returncode == 2


def test_files_get_no_numbers_of_streams_that_are_closed(files):
    done = shell(
        files, "pgmo export net.pgmoprof --to csv -f <&- >&- 2>&-; pgmo stats net.pgmoprof"
    )
    assert done.stdout.startswith("profile")
    assert (files / "net.csv").read_text().startswith("block,")


def test_names_that_the_encoding_has_not_are_escaped(files):
    name = os.fsdecode(b"\xff\xc3\xa9.pgmoplan")
    (files / "net.pgmoplan").rename(files / name)
    done = subprocess.run(
        [*PGMO, "check", name],
        cwd=files,
        env=environment(PYTHONIOENCODING="ascii"),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0
    assert rb"\udcff\xe9.pgmoplan: valid" in done.stdout


def on_a_terminal(folder, *command, **more):
    """Run `pgmo` on a pseudo-terminal, and return its output and its exit code."""
    process, master = pty.fork()
    if process == 0:
        os.chdir(folder)
        os.execve(sys.executable, [*PGMO, *command], environment(**more))
    written = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # the program has closed its end
            break
        if not part:
            break
        written += part
    os.close(master)
    return written, os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


DRAWN = [
    ("stats", "net.pgmoprof"),
    ("stats", "--blocks", "net.pgmoprof"),
    ("plan", "net.pgmoprof", "-f", "--solver", "search", "--time-limit", "0.5"),
    ("stats", "net.pgmoprof", "--top", "x"),
    ("plan", "--help"),
]


@pytest.mark.parametrize("command", DRAWN, ids=" ".join)
def test_no_color_leaves_no_escapes_on_a_terminal(command, files):
    written, _ = on_a_terminal(files, *command, NO_COLOR="1", FORCE_COLOR="1")
    assert written
    assert b"\x1b" not in written


@pytest.mark.parametrize(
    ("before", "after", "more"),
    [(["--no-color"], [], {}), ([], ["--no-color"], {}), ([], [], {"TERM": "dumb"})],
)
def test_other_ways_of_saying_so(before, after, more, files):
    search = ["plan", "net.pgmoprof", "-f", "--solver", "search", "--time-limit", "0.5"]
    written, code = on_a_terminal(files, *before, *search, *after, **more)
    assert code == 0
    assert b"\x1b" not in written


def test_colours_are_there_otherwise(files):
    written, code = on_a_terminal(files, "stats", "--blocks", "net.pgmoprof")
    assert code == 0
    assert b"\x1b" in written
    assert b"\x1b" not in shell(files, "pgmo stats net.pgmoprof --blocks").stdout.encode()


def test_a_script_runs_on_streams_that_are_closed(files):
    (files / "hello.py").write_text("open('ran', 'w').close()\n")
    assert shell(files, "pgmo run hello.py >&- 2>&-").returncode == 0
    assert (files / "ran").exists()
    done = shell(files, "pgmo run --json - hello.py > /dev/full")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("pgmo: the result cannot be written to stdout")
