"""Tests that `pgmo run` runs programs as `python` does, with scripts without torch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pgmo
from pgmo.cli.main import main


def both(folder, *command, options=()):
    """Run a program under `python` and under `pgmo run`, and return both results."""
    plain = [sys.executable, *command]
    under = [sys.executable, "-m", "pgmo", "run", *options, *command]
    environment = {**os.environ, "PYTHONPATH": str(Path(pgmo.__file__).parents[1])}
    return tuple(
        subprocess.run(
            one, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        for one in (plain, under)
    )


def assert_alike(plain, under):
    assert under.stdout == plain.stdout
    assert under.returncode == plain.returncode
    assert under.stderr.startswith(plain.stderr)


SHOW = """
import os, sys
print(__name__, __file__, __package__, __spec__ and __spec__.name, __builtins__.__name__)
print(sys.argv, sys.path, sys.modules["__main__"].__dict__ is globals())
print(type(__loader__).__name__, __doc__, sorted(globals()))
"""


def test_a_script_sees_what_it_sees_under_python(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "show.py").write_text(SHOW)
    (tmp_path / "deep" / "neighbour.py").write_text("")
    assert_alike(*both(tmp_path, "deep/show.py", "--lr", "3", "--json", "-m", "--", "x"))


def test_a_link_finds_its_neighbours_where_it_points(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "show.py").write_text(SHOW + "import neighbour\n")
    (tmp_path / "deep" / "neighbour.py").write_text("")
    (tmp_path / "link.py").symlink_to(tmp_path / "deep" / "show.py")
    assert_alike(*both(tmp_path, "link.py"))


@pytest.mark.parametrize("name", ["parts.show", "parts"])
def test_a_module_sees_what_it_sees_under_python(tmp_path, name):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "__init__.py").write_text("")
    for file in ("show.py", "__main__.py"):
        (tmp_path / "parts" / file).write_text(SHOW + "from . import __init__\n")
    assert_alike(*both(tmp_path, "-m", name, "--lr", "3", "-m", "x"))


def test_a_directory_with_a_main(tmp_path):
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__main__.py").write_text("import part, sys; print(sys.argv, __name__)")
    (tmp_path / "app" / "part.py").write_text("")
    assert_alike(*both(tmp_path, "app", "x"))


PROGRAMS = {
    "no exit code": "sys.exit()",
    "an exit code": "sys.exit(3)",
    "a negative exit code": "sys.exit(-1)",
    "an exit with a message": "sys.exit('no data')",
    "an exit with a number that is no code": "sys.exit(2.5)",
    "the end of the file": "pass",
    "an exception": "def f():\n    raise ValueError('wrong')\nf()\n",
    "an exception with a cause": """
try:
    1 / 0
except ZeroDivisionError as error:
    raise KeyError('k') from error
""",
    "a syntax error": "def f(:\n",
    "a missing module": "import no_such_module\n",
    "a broken module": "import broken\n",
    "an error of pgmo": "from pgmo.errors import FileError\nraise FileError('gone')\n",
    "spawned and forked children": """
import multiprocessing
def square(x):
    return x * x
if __name__ == '__main__':
    for method in ('spawn', 'fork'):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(pool.map(square, [1, 2, 3]))
""",
    "threads and exit handlers": """
import atexit, threading, time
def late():
    time.sleep(0.2)
    print('thread', __name__)
atexit.register(lambda: print('exit', __name__))
threading.Thread(target=late).start()
""",
    "a pickle of an object of main": """
import pickle
class Thing: pass
print(type(pickle.loads(pickle.dumps(Thing()))) is Thing)
""",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_output_errors_and_exit_code_are_those_under_python(tmp_path, program):
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "program.py").write_text(f"import sys\nprint('here')\n{program}")
    plain, under = both(tmp_path, "program.py", options=("-q",))
    assert_alike(plain, under)
    assert under.stderr == plain.stderr


def test_an_interrupt_exits_130(tmp_path):
    (tmp_path / "stop.py").write_text("raise KeyboardInterrupt\n")
    _, under = both(tmp_path, "stop.py", options=("-q",))
    assert under.returncode == 130
    assert under.stderr.endswith("KeyboardInterrupt\n")
    assert "pgmo" not in under.stderr


def test_a_forked_child_that_returns_says_nothing_of_its_own(tmp_path):
    (tmp_path / "fork.py").write_text("import os\nif os.fork(): os.wait()\n")
    _, under = both(tmp_path, "fork.py")
    assert under.stderr.count("it ran as without pgmo") == 1


def test_a_script_without_torch_never_gets_it(tmp_path):
    (tmp_path / "plain.py").write_text("import sys; print('torch' in sys.modules)\n")
    plain, under = both(tmp_path, "plain.py", options=("--json", "run.json"))
    assert_alike(plain, under)
    assert plain.stdout == "False\n"
    assert "never imported torch; it ran as without pgmo" in under.stderr
    fields = json.loads((tmp_path / "run.json").read_text())
    assert fields["sessions"] == []
    assert fields["exit_code"] == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [("train.py", "there is no file train.py\n"), ("parts.train", "write -m parts.train\n")],
)
def test_a_missing_script_is_explained(name, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["run", name]) == 1
    assert capsys.readouterr().err.endswith(message)


def test_a_missing_module_is_explained(tmp_path):
    _, under = both(tmp_path, "-m", "no_such_module")
    assert under.returncode == 1
    assert under.stderr.startswith("pgmo run: there is no module no_such_module that can be run")


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--plan", "none.pgmoplan"], 1, "none.pgmoplan: cannot be read"),
        (["--plan", "x.pgmoplan", "--profile-only"], 2, "cannot be combined with --plan"),
    ],
)
def test_options_that_cannot_work_are_refused_before_the_script_runs(
    tmp_path, options, code, message
):
    (tmp_path / "train.py").write_text("print('ran')")
    _, under = both(tmp_path, "train.py", options=options)
    assert under.returncode == code
    assert message in under.stderr
    assert under.stdout == ""
