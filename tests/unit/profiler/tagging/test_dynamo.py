"""Tests of observers, which are notified of the beginning and end of compiled code."""

import contextlib
import threading

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack  # noqa: E402

from pgmo.profiler.tagging import dynamo  # noqa: E402
from pgmo.profiler.tagging.tags import COMPILED  # noqa: E402
from tests.unit.profiler.networks import Log, Net, tagger_with  # noqa: E402


class RecordingObserver:
    def __init__(self):
        self.all = []

    def suspend(self):
        assert dynamo.inside()
        self.all.append("compiled")

    def resume(self):
        assert not dynamo.inside()
        self.all.append("back")

    def compiling(self):
        self.all.append("compiling")


@pytest.fixture
def reported():
    observer = RecordingObserver()
    leave = dynamo.register(observer)
    yield observer.all
    leave()
    assert not dynamo.inside()
    torch._dynamo.reset()


def fail(_graph, _inputs):
    raise RuntimeError("no")


def eager(function, **options):
    return torch.compile(function, backend="eager", **options)


def test_a_function(reported):
    twice = eager(lambda x: x * 2)
    twice(torch.ones(3))
    assert reported == ["compiled", "compiling", "back"]
    twice(torch.ones(3))
    assert reported[3:] == ["compiled", "back"]


def test_a_disabled_function_belongs_to_its_compiled_caller(reported):
    @torch.compiler.disable
    def disabled(x):
        return x + 1

    eager(lambda x: disabled(x * 2) * 2)(torch.ones(3))
    assert reported[0] == "compiled"
    assert reported[-1] == "back"
    assert reported.count("back") == reported.count("compiled") == 1


def test_an_exception_ends_it(reported):
    def fail(x):
        torch._dynamo.graph_break()
        raise KeyError

    with pytest.raises(KeyError):
        eager(fail)(torch.ones(3))
    assert reported[-1] == "back"
    assert reported.count("compiled") == 1


@pytest.mark.parametrize("watched_before", [True, False])
def test_a_compilation_that_fails_ends_it(reported, watched_before):
    observers = list(dynamo._observers)
    if not watched_before:
        dynamo._observers.clear()
    try:
        compiled = torch.compile(lambda x: x * 2, backend=fail)
        for _ in range(2):
            with pytest.raises(Exception, match="no"):
                compiled(torch.ones(3))
            assert not dynamo.inside()
    finally:
        dynamo._observers[:] = observers
    assert reported == (["compiled", "compiling", "back"] * 2 if watched_before else [])


def test_within_another_it_does_not_end_that(reported):
    inner, inside = torch.compile(lambda x: x * 2, backend=fail), []

    @torch.compiler.disable
    def look():
        inside.append(dynamo.inside())

    def outer(x):
        torch._dynamo.graph_break()
        with contextlib.suppress(RuntimeError):
            inner(x)
        look()
        return x + 1

    eager(outer)(torch.ones(3))
    assert inside == [True]
    assert reported[-1] == "back"


@torch._dynamo.config.patch(raise_on_ctx_manager_usage=False)
def test_a_context_manager(reported):
    for backend in ("eager", fail):
        reported.clear()
        with contextlib.suppress(RuntimeError), torch._dynamo.optimize(backend):
            (lambda x: x * 2)(torch.ones(3))
        assert reported[0] == "compiled"
        assert reported[-1] == "back"
        assert not dynamo.inside()


def test_each_thread_is_on_its_own(reported):
    inside, go_on = threading.Event(), threading.Event()

    def wait(x):
        torch._dynamo.graph_break()
        inside.set()
        go_on.wait(60)
        return x

    worker = threading.Thread(target=eager(wait), args=(torch.ones(3),))
    worker.start()
    assert inside.wait(60)
    assert not dynamo.inside()
    go_on.set()
    worker.join()
    assert reported[-1] == "back"


def test_the_tagger_has_no_mode_and_those_of_the_program_stay():
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    stacks = []

    def look(x):
        torch._dynamo.graph_break()
        stacks.append(_get_current_dispatch_mode_stack())
        return x + 1

    compiled, mode, log = eager(look), Mode(), Log()
    with tagger_with(log), mode:
        compiled(torch.ones(3))
        assert _get_current_dispatch_mode_stack() == [mode]
    assert stacks == [[mode]]
    assert _get_current_dispatch_mode_stack() == []
    torch._dynamo.reset()


def test_the_iteration_that_compiles_is_watched_no_further():
    log, model = Log(), Net()
    compiled = eager(model)
    with tagger_with(log) as tagger:
        compiled(torch.ones(2, 8))
        torch.ones(3)
    assert tagger.compiled
    assert [tag.op for tag in tagger.tags] == ["aten.ones", COMPILED]
    with tagger_with(log, tagger.tags) as following:
        compiled(torch.ones(2, 8))
        torch.zeros(3)
    assert not following.compiled
    of_both = ["aten.ones", COMPILED, "aten.ones", COMPILED, "aten.zeros"]  # lines of both calls
    assert [tag.op for tag in following.tags] == of_both
    assert log.now == {threading.get_ident(): -1}
    torch._dynamo.reset()


def test_closed_in_compiled_code_it_leaves_no_number_behind():
    log, model = Log(), nn.Linear(8, 8)

    def step(x):
        y = model(x)
        torch._dynamo.graph_break()
        tagger.__exit__(None, None, None)
        return y

    compiled = eager(lambda x: model(x))
    compiled(torch.ones(2, 8))
    tagger = tagger_with(log).__enter__()
    eager(step)(torch.ones(2, 8))
    assert log.now == {threading.get_ident(): -1}
    assert _get_current_dispatch_mode_stack() == []
    torch._dynamo.reset()


def test_begun_in_compiled_code_it_watches_from_its_end_on(reported):
    log, taggers, watched = Log(), [], []

    @torch.compiler.disable
    def begin():
        if watched:
            taggers.append(tagger_with(log).__enter__())

    def between(x):
        x = x * 2
        begin()
        return x + 1

    compiled = eager(between)
    compiled(torch.ones(3))
    watched.append(True)
    compiled(torch.ones(3))
    torch.zeros(3)
    taggers[0].__exit__(None, None, None)
    assert log.tags()[-1].op == "aten.zeros"
    assert log.now == {threading.get_ident(): -1}
    torch._dynamo.reset()


def test_an_observer_that_fails_is_none_of_the_programs_business():
    class Failing(RecordingObserver):
        def suspend(self):
            raise KeyError("suspend")

        def resume(self):
            raise KeyError("back")

    leave = dynamo.register(Failing())
    try:
        with pytest.warns(UserWarning, match="pgmo: watching compiled code failed: KeyError"):
            assert eager(lambda x: x + 1)(torch.ones(1)) == 2
        assert not dynamo.inside()
    finally:
        leave()
        torch._dynamo.reset()
