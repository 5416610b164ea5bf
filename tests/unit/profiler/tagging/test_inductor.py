"""Tests of Inductor's kernels, in modules that are written as Inductor would generate them."""

import threading
from types import ModuleType, SimpleNamespace

import pytest

from pgmo.profiler.tagging import inductor
from pgmo.profiler.tagging.generated_code import MARKS

SOURCE = """
def empty_strided_cpu(size):
    return [0] * size

class Runner:
    def call(self, args):
        a, = args
        args.clear()
        b = empty_strided_cpu(4)
        kernel(a, b)
        return (b, )

call = Runner().call
"""


class Listener:
    def __init__(self):
        self.reported = []

    def kernels_begin(self):
        self.reported.append("begin")

    def kernel(self, origin):
        self.reported.append(origin)

    def kernels_end(self):
        self.reported.append("end")


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Return a module as Inductor generates it, with stacks of its lines in Inductor's cache."""
    path = tmp_path / "made.py"
    path.write_text(SOURCE)
    module = ModuleType("made")
    module.__file__ = str(path)
    exec(compile(SOURCE, str(path), "exec"), vars(module))
    module.kernel = lambda a, b: b.__setitem__(a, 7)
    stacks = {
        10: [
            {"filename": "/x/site-packages/torch/nn/functional.py", "line": 9, "name": "gelu"},
            {"filename": "/home/me/model.py", "line": 31, "name": "forward"},
        ]
    }
    cache = SimpleNamespace(
        modules=[module], stack_frames_for_code=lambda _path, line: stacks.get(line)
    )
    monkeypatch.setitem(
        inductor.sys.modules, "torch._inductor.codecache", SimpleNamespace(PyCodeCache=cache)
    )
    inductor._marked_code.cache_clear()
    return module


def test_listeners_are_notified(made):
    call, code, before = made.call, made.Runner.call.__code__, vars(made).copy()
    listener, kernel = Listener(), made.kernel
    made.kernel = lambda *given: (listener.reported.append("runs"), kernel(*given))
    leave = inductor.listen(listener)
    assert call([2]) == ([0, 0, 7, 0],)
    origin = inductor.KernelOrigin(
        "kernel", "model.py:31 in forward", ("functional.py:9 in gelu", "model.py:31 in forward")
    )
    assert listener.reported == ["begin", origin, origin, "runs", "end"]
    leave()
    assert made.Runner.call.__code__ is code
    assert call([2]) == ([0, 0, 7, 0],)
    assert listener.reported[4:] == ["end", "runs"]
    assert vars(made).keys() - before.keys() == {MARKS}


def test_two_listeners(made):
    code, one, other = made.Runner.call.__code__, Listener(), Listener()
    leave_one, leave_other = inductor.listen(one), inductor.listen(other)
    made.call([0])
    leave_one()
    made.call([0])
    leave_other()
    assert made.Runner.call.__code__ is code
    assert (len(one.reported), len(other.reported)) == (4, 8)


def test_a_call_may_outlast_its_listener(made):
    listener, begun, left = Listener(), threading.Event(), threading.Event()

    def kernel(*_):
        begun.set()
        assert left.wait(60)

    made.kernel = kernel
    leave = inductor.listen(listener)
    thread = threading.Thread(target=made.call, args=([1],))
    thread.start()
    assert begun.wait(60)
    leave()
    left.set()
    thread.join(60)
    assert not thread.is_alive()
    assert listener.reported[-1] != "end"


def test_an_exception_ends_it(made):
    listener = Listener()
    made.kernel = lambda *_: 1 / 0
    leave = inductor.listen(listener)
    with pytest.raises(ZeroDivisionError):
        made.call([1])
    leave()
    assert listener.reported[-1] == "end"


@pytest.mark.parametrize("source", ["", SOURCE.replace("4", "5"), "def call(:", None])
def test_code_that_is_not_what_its_file_says_is_left_alone(made, source):
    if source is None:
        made.__file__ = "/nowhere/made.py"
    else:
        with open(made.__file__, "w") as file:
            file.write(source)
    listener = Listener()
    leave = inductor.listen(listener)
    assert made.call([2]) == ([0, 0, 7, 0],)
    leave()
    assert listener.reported == []


def test_an_interruption_while_marking_leaves_nothing_marked(made, monkeypatch):
    code, listener = made.Runner.call.__code__, Listener()
    mark = inductor._mark_module

    def interrupted(module):
        mark(module)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(inductor, "_mark_module", interrupted)
        with pytest.raises(KeyboardInterrupt):
            inductor.listen(listener)
    assert made.Runner.call.__code__ is code
    made.call([2])
    assert listener.reported == []


def test_code_that_somebody_else_has_put_there_stays(made):
    leave = inductor.listen(Listener())
    other = (lambda self, args: args).__code__
    made.Runner.call.__code__ = other
    leave()
    assert made.Runner.call.__code__ is other


def test_a_listener_that_fails_does_not_fail_the_program(made):
    class Failing(Listener):
        def kernels_begin(self):
            raise RuntimeError("of the listener")

    leave = inductor.listen(Failing())
    with pytest.warns(UserWarning, match="of the listener"):
        assert made.call([2]) == ([0, 0, 7, 0],)
    leave()
