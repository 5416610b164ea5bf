"""Tests that warnings name the user's line, not one of pgmo, frameworks or the library."""

import contextlib
import sys
import threading
import types
import warnings
from pathlib import Path

import pytest

import pgmo
from pgmo.user_warnings import warn_user
from tests.unit.allocator.simulated import SimulatedAdapter, open_session


@pytest.fixture
def adapter():
    return SimulatedAdapter()


def here():
    """Return the number of the line with the call."""
    return sys._getframe(1).f_lineno


def calls_back(monkeypatch, tmp_path, name):
    """Return a function of a made-up package, which calls its argument, and its file."""
    folder = tmp_path / name
    folder.mkdir()
    file = folder / "loop.py"
    file.write_text("def call(back):\n    return back()\n")
    package = types.ModuleType(name)
    package.__path__ = [str(folder)]
    monkeypatch.setitem(sys.modules, name, package)
    namespace = {}
    exec(compile(file.read_text(), str(file), "exec"), namespace)
    return namespace["call"], file


def test_a_step_that_warns(adapter):
    with open_session(adapter) as session, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(6):
            session.step()
            line = here() - 1
    (one,) = said
    assert "iterations allocate nothing" in str(one.message)
    assert (one.filename, one.lineno) == (__file__, line)


def test_an_iteration_that_ends_with_its_block(adapter):
    with open_session(adapter) as session, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(5):
            with session.iteration():  # a frame of contextlib lies in between
                pass
    assert said
    assert {one.filename for one in said} == {__file__}


def test_a_session_on_an_exit_stack(adapter):
    with pytest.warns(UserWarning, match="without a single iteration") as said:
        with contextlib.ExitStack() as stack:
            stack.enter_context(open_session(adapter))
    assert said[0].filename == __file__


@pytest.mark.parametrize("name", ["lightning", "transformers", "accelerate"])
def test_callbacks_of_frameworks_are_passed_over(monkeypatch, tmp_path, name):
    call, _ = calls_back(monkeypatch, tmp_path, name)
    with pytest.warns(UserWarning, match="trouble") as said:
        call(from_pgmo())
        line = here() - 1
    assert (said[0].filename, said[0].lineno) == (__file__, line)


def from_pgmo():
    """Return a function in a file of pgmo that warns."""
    file = str(Path(pgmo.__file__).parent / "none.py")
    return types.FunctionType(compile("warn('trouble')", file, "exec"), {"warn": warn_user})


def test_a_package_that_is_no_framework_is_the_users(monkeypatch, tmp_path):
    call, file = calls_back(monkeypatch, tmp_path, "my_trainer")
    with pytest.warns(UserWarning, match="trouble") as said:
        call(from_pgmo())
    assert said[0].filename == str(file)


def test_a_folder_whose_name_begins_like_ours_is_the_users():
    file = f"{Path(pgmo.__file__).parent}_scripts/train.py"
    with pytest.warns(UserWarning, match="trouble") as said:
        exec(compile("warn('trouble')", file, "exec"), {"warn": warn_user})
    assert said[0].filename == file


def test_a_thread_without_a_line_of_the_users_warns_all_the_same():
    with pytest.warns(UserWarning, match="trouble") as said:
        thread = threading.Thread(target=warn_user, args=("trouble",))
        thread.start()
        thread.join()
    assert said[0].filename == threading.__file__


def test_it_is_said_once_for_each_line():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        for _ in range(3):
            from_pgmo()()
    assert len(said) == 1


def test_no_other_module_warns_by_itself():
    package = Path(pgmo.__file__).parent
    own = [
        path.relative_to(package)
        for path in package.rglob("*.py")
        if "warnings.warn" in path.read_text() and path.name != "user_warnings.py"
    ]
    assert own == []
