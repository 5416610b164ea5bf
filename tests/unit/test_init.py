import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import pgmo
from pgmo import removed

HEAVY = {"numpy", "torch", "cupy", "ortools", "rich", "pgmo._core"}


def loaded_by(code):
    code += "\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_importing_pgmo_loads_nothing_heavy():
    loaded = loaded_by("import pgmo")
    assert "pgmo" in loaded
    assert not HEAVY & set(loaded)


def test_a_name_is_loaded_when_it_is_used():
    loaded = loaded_by("from pgmo import Profile")
    assert "numpy" in loaded
    assert "pgmo.allocator.session.session" not in loaded


@pytest.mark.parametrize("name", pgmo.__all__)
def test_every_public_name_is_there(name):
    assert getattr(pgmo, name) is not None
    assert name in dir(pgmo)


def test_type_checkers_and_python_agree_on_where_names_come_from():
    documented = {
        alias.name: statement.module
        for branch in ast.parse(Path(pgmo.__file__).read_text(encoding="utf-8")).body
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
        for statement in branch.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert documented == pgmo._HOMES
    assert set(documented) <= set(pgmo.__all__)


def test_names_that_have_moved_say_where_they_are():
    with pytest.raises(ImportError, match=r"has moved: from pgmo\.errors import OptionError"):
        _ = pgmo.OptionError
    with pytest.raises(ImportError, match=r"has moved: from pgmo\.packing\.problem import"):
        from pgmo import Problem  # noqa: F401
    for name, home in removed.NAMES.items():
        assert hasattr(importlib.import_module(home), name)
    with pytest.raises(ImportError, match=r"extrapolate was removed: pgmo\.fit\(\) finds"):
        _ = pgmo.extrapolate
    with pytest.raises(ImportError, match=r"load_ipython_extension was removed: put `with pgmo"):
        pgmo.load_ipython_extension(None)  # as `%load_ext pgmo` does


def test_other_names_are_refused_as_usual():
    with pytest.raises(AttributeError, match="module 'pgmo' has no attribute 'optimise'"):
        _ = pgmo.optimise
    with pytest.raises(ImportError, match="optimise"):
        from pgmo import optimise  # noqa: F401
