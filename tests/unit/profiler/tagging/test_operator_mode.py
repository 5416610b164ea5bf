"""The program's own dispatch modes and threads, beside the tagger's."""

import gc
import subprocess
import sys
import threading
import weakref

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils._python_dispatch import (  # noqa: E402
    TorchDispatchMode,
    _get_current_dispatch_mode_stack,
    is_in_torch_dispatch_mode,
)

from pgmo.profiler.profile import Tag  # noqa: E402
from pgmo.profiler.tagging import operator_mode  # noqa: E402
from pgmo.profiler.tagging.tags import Tagger  # noqa: E402
from tests.unit.profiler.networks import Log, Net  # noqa: E402


class Seen(TorchDispatchMode):
    """A mode of the program: the operators that passed it."""

    def __init__(self):
        super().__init__()
        self.operators = []
        self.entered = 0

    def __enter__(self):
        self.entered += 1
        return super().__enter__()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.operators.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def no_flag_of_others(monkeypatch):
    """It is the whole process's, and modes that others have left in turns leave it wrong."""
    monkeypatch.setattr("torch.utils._python_dispatch._is_in_torch_dispatch_mode", False)


def _no_mode_is_left():
    return _get_current_dispatch_mode_stack() == [] and not is_in_torch_dispatch_mode()


def test_operators_that_take_functions_run_as_they_do_without():
    def either(x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    log = Log()
    with Tagger(log) as tagger:
        result = either(torch.ones(3))
    assert torch.equal(result, torch.full((3,), 2.0))
    assert log.tags(tagger)


def test_a_program_is_compiled_as_it_is_without():
    graphs = []

    def backend(graph, _inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(lambda x: x * 2 + 1, backend=backend, fullgraph=True)
    with Tagger(Log()):
        assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 3.0))
    compiled(torch.ones(3))
    assert len(graphs) == 1  # and what was compiled then is used afterwards


def test_a_mode_entered_before_may_be_left_before_the_tagger_is():
    log, seen = Log(), Seen()
    with seen:
        tagger = Tagger(log).__enter__()
        torch.ones(1)
    torch.zeros(1)
    tagger.__exit__(None, None, None)
    torch.empty(1)
    assert [tag.op for tag in log.tags(tagger)] == ["aten.ones", "aten.zeros"]
    assert seen.operators == ["aten.ones.default"]
    assert _no_mode_is_left()


def test_closed_on_another_thread_it_has_no_effect_and_goes_at_the_next_chance():
    log, failures = Log(), []
    tagger = Tagger(log).__enter__()

    def close():
        try:
            tagger.__exit__(None, None, None)
        except BaseException as failure:
            failures.append(failure)

    worker = threading.Thread(target=close)
    worker.start()
    worker.join()
    assert failures == []
    Net()(torch.ones(1, 8))
    assert log.numbers == []
    with Seen() as seen:
        with Tagger(log) as following:
            torch.ones(1)
            assert len(_get_current_dispatch_mode_stack()) == 2
        torch.ones(1)
    assert len(seen.operators) == 2
    assert [tag.op for tag in log.tags(following)] == ["aten.ones"]
    assert _no_mode_is_left()


def test_a_thread_that_ended_leaves_nothing_behind():
    taggers = []
    worker = threading.Thread(target=lambda: taggers.append(Tagger(Log()).__enter__()))
    worker.start()
    worker.join()
    taggers[0].__exit__(None, None, None)
    assert operator_mode._left == []


def test_a_thread_that_ends_without_leaving_it_takes_it_off_while_it_may_run_python():
    stacks, later, tagger = [], threading.local(), Tagger(Log())

    class Last:
        def __del__(self):
            stacks.append(_get_current_dispatch_mode_stack())

    def work():
        tagger.__enter__()
        later.last = Last()  # goes after what came before it

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    assert stacks == [[]]
    tagger.__exit__(None, None, None)


def test_once_closed_it_keeps_no_module_alive():
    log, model = Log(), Net()
    with Tagger(log) as tagger:
        model(torch.zeros(2, 8)).sum().backward()
    model_gone = weakref.ref(model)
    del model
    gc.collect()
    assert model_gone() is None
    assert Tag("Net.head", "aten.addmm", "forward") in log.without_lines(tagger)


def test_closed_within_a_module_it_does_not_keep_that_one_either():
    class Closes(nn.Module):
        def forward(self, x):
            tagger.__exit__(None, None, None)
            return x + 1

    model = Closes()
    tagger = Tagger(Log()).__enter__()
    model(torch.zeros(1))
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_dynamo_is_not_imported_for_it(tmp_path):
    """In a program that compiles nothing: it takes seconds and 60 MiB."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, torch\n"
        "from pgmo.profiler.tagging.tags import Tagger\n"
        "with Tagger(lambda number: None) as tagger:\n"
        "    torch.ones(3).add(1)\n"
        "assert len(tagger.tags) == 2\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    subprocess.run([sys.executable, script], check=True)
