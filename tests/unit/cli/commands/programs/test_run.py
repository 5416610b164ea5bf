"""Tests that `pgmo run` runs programs as `python` does, with scripts without torch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pgmo
from pgmo.cli.main import main


@pytest.fixture
def folder(tmp_path):
    return tmp_path


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


def test_a_script_sees_what_it_sees_under_python(folder):
    (folder / "deep").mkdir()
    (folder / "deep" / "show.py").write_text(SHOW)
    (folder / "deep" / "neighbour.py").write_text("")
    assert_alike(*both(folder, "deep/show.py", "--lr", "3", "--json", "-m", "--", "x"))


def test_a_link_finds_its_neighbours_where_it_points(folder):
    (folder / "deep").mkdir()
    (folder / "deep" / "show.py").write_text(SHOW + "import neighbour\n")
    (folder / "deep" / "neighbour.py").write_text("")
    (folder / "link.py").symlink_to(folder / "deep" / "show.py")
    assert_alike(*both(folder, "link.py"))


@pytest.mark.parametrize("name", ["parts.show", "parts"])
def test_a_module_sees_what_it_sees_under_python(folder, name):
    (folder / "parts").mkdir()
    (folder / "parts" / "__init__.py").write_text("")
    for file in ("show.py", "__main__.py"):
        (folder / "parts" / file).write_text(SHOW + "from . import __init__\n")
    assert_alike(*both(folder, "-m", name, "--lr", "3", "-m", "x"))


def test_a_directory_with_a_main(folder):
    (folder / "app").mkdir()
    (folder / "app" / "__main__.py").write_text("import part, sys; print(sys.argv, __name__)")
    (folder / "app" / "part.py").write_text("")
    assert_alike(*both(folder, "app", "x"))


@pytest.mark.parametrize(
    "ending",
    [
        "sys.exit()",
        "sys.exit(0)",
        "sys.exit(3)",
        "sys.exit(-1)",
        "sys.exit(300)",
        "sys.exit('no data')",
        "sys.exit(None)",
        "raise SystemExit(7)",
        "sys.exit(2.5)",
        "pass",
    ],
)
def test_the_exit_code_is_kept(folder, ending):
    (folder / "end.py").write_text(f"import sys\nprint('here')\n{ending}\n")
    assert_alike(*both(folder, "end.py", options=("-q",)))


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    raise ValueError('wrong')\nf()\n",
        "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise KeyError('k') from error\n",
        "def f(:\n",
        "import no_such_module\n",
        "import broken\n",
    ],
)
def test_an_exception_has_the_traceback_that_it_has_under_python(folder, text):
    (folder / "broken.py").write_text("1 / 0\n")
    (folder / "fail.py").write_text(text)
    plain, under = both(folder, "fail.py", options=("-q",))
    assert_alike(plain, under)
    assert under.stderr == plain.stderr
    assert under.returncode == 1


def test_an_interrupt_exits_130(folder):
    (folder / "stop.py").write_text("raise KeyboardInterrupt\n")
    _, under = both(folder, "stop.py", options=("-q",))
    assert under.returncode == 130
    assert under.stderr.endswith("KeyboardInterrupt\n")
    assert "pgmo" not in under.stderr


def test_spawned_and_forked_children_work(folder):
    (folder / "pool.py").write_text(
        "import multiprocessing, sys\n"
        "def square(x):\n    return x * x\n"
        "if __name__ == '__main__':\n"
        "    for method in ('spawn', 'fork'):\n"
        "        with multiprocessing.get_context(method).Pool(1) as pool:\n"
        "            print(pool.map(square, [1, 2, 3]))\n"
    )
    assert_alike(*both(folder, "pool.py", options=("-q",)))


def test_threads_and_exit_handlers_run_to_their_end(folder):
    (folder / "late.py").write_text(
        "import atexit, threading, time\n"
        "def late():\n    time.sleep(0.2)\n    print('thread', __name__)\n"
        "atexit.register(lambda: print('exit', __name__))\n"
        "threading.Thread(target=late).start()\n"
    )
    assert_alike(*both(folder, "late.py", options=("-q",)))


def test_what_is_pickled_belongs_to_main(folder):
    (folder / "keep.py").write_text(
        "import pickle\nclass Thing: pass\n"
        "print(type(pickle.loads(pickle.dumps(Thing()))) is Thing)\n"
    )
    assert_alike(*both(folder, "keep.py"))


def test_a_forked_child_that_returns_says_nothing_of_its_own(folder):
    (folder / "fork.py").write_text("import os\nif os.fork(): os.wait()\n")
    _, under = both(folder, "fork.py")
    assert under.stderr.count("it ran as without pgmo") == 1


def test_a_script_without_torch_never_gets_it(folder):
    (folder / "plain.py").write_text("import sys; print('torch' in sys.modules)\n")
    plain, under = both(folder, "plain.py", options=("--json", "run.json"))
    assert_alike(plain, under)
    assert plain.stdout == "False\n"
    assert "never imported torch; it ran as without pgmo" in under.stderr
    fields = json.loads((folder / "run.json").read_text())
    assert fields["sessions"] == []
    assert fields["exit_code"] == 0


def test_a_missing_script_is_explained(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "train.py"]) == 1
    assert capsys.readouterr().err == "pgmo run: there is no file train.py\n"


def test_a_module_without_its_option_is_explained(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "parts.train"]) == 1
    assert "for a module write: pgmo run -m parts.train" in capsys.readouterr().err


def test_a_missing_module_is_explained(folder):
    _, under = both(folder, "-m", "no_such_module")
    assert under.returncode == 1
    assert under.stderr.startswith("pgmo run: there is no module no_such_module that can be run")


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--device", "tpu"], 2, "device='tpu' is not supported"),
        (["--plan", "none.pgmoplan"], 1, "none.pgmoplan: cannot be read"),
        (["--plan", "x.pgmoplan", "--profile-only"], 2, "cannot be combined with --plan"),
    ],
)
def test_options_that_cannot_work_are_refused_before_the_script_runs(
    folder, options, code, message
):
    (folder / "train.py").write_text("print('ran')")
    _, under = both(folder, "train.py", options=options)
    assert under.returncode == code
    assert message in under.stderr
    assert under.stdout == ""
