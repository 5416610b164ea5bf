import importlib
import importlib.util
import inspect
import sys

import pytest

from pgmo.imports import after_import


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Return the name of a module that can be imported during the test."""
    (tmp_path / "parcel").mkdir()
    (tmp_path / "parcel" / "__init__.py").write_text("")
    (tmp_path / "parcel" / "inner.py").write_text("value = 5\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "parcel.inner"
    for name in ("parcel.inner", "parcel"):
        sys.modules.pop(name, None)


def test_the_call_comes_once_and_after_the_code(module):
    seen = []
    finders = list(sys.meta_path)
    after_import(module, lambda: seen.append(sys.modules[module].value))
    importlib.import_module("parcel")
    assert seen == []
    importlib.import_module(module)
    assert seen == [5]
    assert sys.meta_path == finders
    importlib.reload(sys.modules[module])
    assert seen == [5]


def test_looking_for_a_module_is_not_importing_it(module):
    seen = []
    finders = list(sys.meta_path)
    after_import(module, lambda: seen.append("one"))
    after_import(module, lambda: seen.append("other"))
    for _ in range(2):
        assert importlib.util.find_spec(module) is not None
    assert seen == []
    importlib.import_module(module)
    assert sorted(seen) == ["one", "other"]
    assert sys.meta_path == finders


def test_the_module_is_as_without(module):
    after_import(module, lambda: None)
    imported = importlib.import_module(module)
    assert type(imported.__loader__).__name__ == "SourceFileLoader"
    assert imported.__spec__.loader is imported.__loader__
    assert inspect.getsource(imported) == "value = 5\n"


def test_a_module_that_is_there_calls_at_once(module):
    importlib.import_module(module)
    seen = []
    after_import(module, lambda: seen.append(1))
    assert seen == [1]


def test_a_module_that_does_not_exist_fails_as_without(module):
    after_import("parcel.none", lambda: pytest.fail("called"))
    with pytest.raises(ModuleNotFoundError, match=r"parcel\.none"):
        importlib.import_module("parcel.none")
