"""Tests of the function that `--step-on` names, and of messages on names that do not exist."""

import sys
from types import ModuleType

import pytest

from pgmo.errors import OptionError
from pgmo.runner.definitions import functions_of
from pgmo.runner.step_on import DECORATOR, StepOn

APP = """
kept = []

def keep(function):
    kept.append(function)
    return function

@keep
def predict(x):
    return x + 1

class Model:
    def answer(self, x):
        return predict(x)

    @staticmethod
    def fixed(x):
        return x + 2

    @classmethod
    def made(cls, x):
        return x + 3

if True:
    def hidden(x):
        return x + 4

value = 5
alias = predict

async def later(x):
    return x

def stream(x):
    yield x
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a folder with a module `plain` and a package `shop`, which exports `app.Model`."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/__init__.py").write_text("from shop.app import Model\n")
    (tmp_path / "shop/app.py").write_text(APP)
    (tmp_path / "plain.py").write_text(APP)
    monkeypatch.syspath_prepend(tmp_path)
    before = list(sys.meta_path)
    yield tmp_path
    sys.meta_path[:] = before
    for name in ("shop", "shop.app", "plain"):
        sys.modules.pop(name, None)


class Watching:
    def __init__(self):
        self.calls = []

    def __call__(self, function, *args, **kwargs):
        self.calls.append(function.__qualname__)
        return function(*args, **kwargs)


@pytest.mark.parametrize(
    ("target", "call", "expected"),
    [
        ("plain:predict", lambda app: app.predict(1), 2),
        ("plain:predict", lambda app: app.kept[0](1), 2),  # kept by the decorator
        ("plain:predict", lambda app: app.Model().answer(1), 2),
        ("plain:Model.answer", lambda app: app.Model().answer(1), 2),
        ("plain.Model:answer", lambda app: app.Model().answer(1), 2),
        ("plain:Model.fixed", lambda app: app.Model.fixed(1), 3),
        ("plain:Model.made", lambda app: app.Model.made(1), 4),
        ("plain:hidden", lambda app: app.hidden(1), 5),
        ("plain:alias", lambda app: app.alias(1), 2),  # a name that is assigned
    ],
)
@pytest.mark.parametrize("early", [False, True])
def test_calls_are_watched(package, target, call, expected, early):
    if early and "predict" in target and "alias" not in target:
        pytest.skip("what has been kept before is not seen")
    watching = Watching()
    if early:
        import plain
    step_on = StepOn(target, "script", watching)
    step_on.attach()
    import plain

    assert step_on.found
    assert call(plain) == expected
    assert len(watching.calls) == 1


@pytest.mark.parametrize(
    "target", ["shop.app:predict", "shop.app.Model:answer", "shop:Model.answer"]
)
def test_modules_of_packages(package, target):
    watching = Watching()
    StepOn(target, "script", watching).attach()
    from shop import Model

    assert Model().answer(1) == 2
    assert len(watching.calls) == 1


@pytest.mark.parametrize("target", ["script:predict", "__main__:predict"])
def test_the_script_itself(target, monkeypatch):
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    watching = Watching()
    step_on = StepOn(target, "script", watching)
    code = step_on.compile_script(APP.encode(), "script.py")
    step_on.attach()
    exec(code, main.__dict__)
    assert main.__dict__[DECORATOR]
    assert main.Model().answer(1) == 2
    assert watching.calls == ["predict"]
    assert main.kept[0].__code__ is not main.kept[0].__wrapped__.__code__
    assert main.kept[0].__wrapped__.__code__.co_firstlineno == 8


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("plain:predikt", "plain has no predikt; it has .*predict"),
        ("plain:Modell.answer", "plain has no Modell; it has .*Model"),
        ("plain:Model.ask", "plain.Model has no ask; it has answer, fixed, made"),
        ("plain:value", "not a function, but an object of type int"),
        ("plain:later", "a coroutine function"),
        ("plain:stream", "a generator"),
        ("no_such_module:predict", "there is no module no_such_module"),
        ("shop.other:predict", "shop has no other; it has .*Model"),
    ],
)
def test_targets_that_cannot_be_watched_are_refused(package, target, message):
    step_on = StepOn(target, "script", Watching())
    with pytest.raises(OptionError, match=message) as caught:
        step_on.attach()
        __import__(target.partition(":")[0].partition(".")[0])
    assert step_on.error is caught.value


def test_a_function_is_found_in_whatever_branch_defines_it():
    source = b"""
match 1:
    case 1:
        def one(): return 1
try:
    raise KeyError
except KeyError:
    def two(): return 2
else:
    def three(): return 3
with open("/dev/null"):
    def four(): return 4
"""
    assert functions_of(source, "script.py") == ["one", "three", "two", "four"]


def test_a_script_without_the_function_says_what_it_defines():
    step_on = StepOn("script:ask", "script", Watching())
    with pytest.raises(OptionError, match=r"no ask; it has keep, predict, Model.answer"):
        step_on.compile_script(APP.encode(), "script.py")
