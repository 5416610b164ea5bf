"""Tests of the operators that a tagger sees, with dispatch modes, threads and a compiler."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from pgmo.allocator.adapters.torch_cpu import torch_cpu  # noqa: E402
from pgmo.profiler.profile import Tag  # noqa: E402
from pgmo.profiler.tagging.operators import OperatorAnswer, report_name, requests_nothing  # noqa: E402
from tests.unit.profiler.networks import Log, Net, logged, tagger_with  # noqa: E402


class Seen(TorchDispatchMode):
    """A dispatch mode of the program, with the operators that it saw."""

    def __init__(self):
        super().__init__()
        self.operators = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.operators.append(str(func))
        return func(*args, **(kwargs or {}))


def _requests(run):
    """Return the bytes of each block that `run` requests, as torch's profiler counts them."""
    with torch.profiler.profile(profile_memory=True, activities=[_CPU]) as profiler:
        run()
    sizes = [
        event.nbytes()
        for event in profiler.profiler.kineto_results.events()
        if event.name() == "[memory]"
    ]
    return [size for size in sizes if size > 0]


_CPU = torch.profiler.ProfilerActivity.CPU


def attention():
    """Return a step of a layer that adds a bias in place if no dispatch mode is active."""
    layer = nn.TransformerEncoderLayer(8, 2, batch_first=True)
    return lambda: layer(torch.ones(2, 3, 8)).sum().backward()


def sums_of_gradients():
    """Return a step whose three gradients autograd adds in place if no dispatch mode is active."""
    x = torch.ones(4096, requires_grad=True)
    return lambda: (x.sin() + x.cos() + x.exp()).sum().backward()


@pytest.mark.parametrize("program", [attention, sums_of_gradients])
def test_a_tagged_program_makes_the_same_requests(program):
    run = program()
    run()

    def tagged():
        with tagger_with(Log()):
            run()

    plain = _requests(run)
    assert plain
    assert _requests(tagged) == plain


def test_composite_operators_are_not_reported_but_those_that_they_call():
    assert report_name("aten::linear", "") == ""
    assert report_name("aten::where", "ScalarSelf") == ""
    assert report_name("aten::where", "self") == "aten.where"
    assert report_name("aten::add_", "Tensor") == "aten.add_"
    assert report_name("aten::addmm", "") == "aten.addmm"
    assert report_name("aten::copy_", "") == "aten.copy_"


def test_pointwise_operators_in_place_are_reported_only_if_they_have_graph_nodes():
    assert requests_nothing("aten::add_", "Tensor")
    assert not requests_nothing("aten::add", "Tensor")
    assert not requests_nothing("aten::copy_", "")
    with logged() as log:
        one = torch.ones(3, requires_grad=True).sin()
        with torch.no_grad():
            one.neg_()
        one.exp_()
    assert [tag.op for tag in log.tags()] == ["aten.ones", "aten.sin", "aten.exp_"]


def test_operators_that_take_functions_run_as_they_do_without():
    def either(x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    with logged() as log:
        result = either(torch.ones(3))
    assert torch.equal(result, torch.full((3,), 2.0))
    assert log.tags()


def test_a_program_is_compiled_as_it_is_without():
    graphs = []

    def backend(graph, _inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(lambda x: x * 2 + 1, backend=backend, fullgraph=True)
    with tagger_with(Log()):
        assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 3.0))
    compiled(torch.ones(3))
    assert len(graphs) == 1  # the second call uses the same graph


def test_modes_of_the_program_see_its_operators_only():
    log, seen = Log(), Seen()
    with seen:
        tagger = tagger_with(log).__enter__()
        torch.ones(1)
    torch.zeros(1)
    tagger.__exit__(None, None, None)
    torch.empty(1)
    ops = [tag.op for tag in log.tags()]
    assert ops[0] == "aten.ones"
    assert ops[-1] == "aten.zeros"
    assert seen.operators == ["aten.ones.default"]


def test_operators_of_a_backward_pass_on_another_thread_are_seen():
    with logged() as log:
        loss = Net()(torch.ones(1, 8)).sum()
        worker = threading.Thread(target=torch.full, args=((3,), 1.0))
        worker.start()
        worker.join()
        loss.backward()
    assert "aten.gelu_backward" in {tag.op for tag in log.tags()}
    assert "aten.full" not in {tag.op for tag in log.tags()}


def test_closed_on_another_thread_it_has_no_effect():
    log, failures = Log(), []
    tagger = tagger_with(log).__enter__()

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


def test_a_thread_that_another_thread_stopped_observing_is_not_observed_with_the_next():
    first = tagger_with(Log()).__enter__()
    log, taggers = Log(), []

    def observe():
        first.__exit__(None, None, None)
        taggers.append(tagger_with(log).__enter__())
        torch.zeros(1)

    worker = threading.Thread(target=observe)
    worker.start()
    worker.join()
    torch.ones(1)
    taggers[0].__exit__(None, None, None)
    assert {tag.op for tag in log.tags()} == {"aten.zeros"}
    with tagger_with(log) as last:
        torch.full((2,), 1.0)
    assert "aten.full" in {tag.op for tag in last.tags}


def test_opened_or_closed_in_a_hook_of_the_backward_pass_it_ends_silently(capfd):
    """Autograd restores the state of its thread after each graph node."""
    x, log = torch.ones(1, requires_grad=True), Log()

    def backward_with(hook):
        y = x * 2
        y.register_hook(hook)
        (y * 3).sum().backward()

    tagger = tagger_with(log)
    backward_with(lambda _: tagger.__enter__() and None)
    tagger.__exit__(None, None, None)
    tagger.__enter__()
    backward_with(lambda _: tagger.__exit__(None, None, None))
    log.numbers.clear()
    torch.ones(1)
    assert log.numbers == []
    with tagger:
        torch.ones(1)
    assert len(log.numbers) == 1
    assert "Requested callback is not found" not in capfd.readouterr().err


def test_once_closed_it_keeps_no_module_alive():
    log, model = Log(), Net()
    with tagger_with(log):
        model(torch.zeros(2, 8)).sum().backward()
    model_gone = weakref.ref(model)
    del model
    gc.collect()
    assert model_gone() is None
    assert Tag("Net.head", "aten.addmm", "forward") in log.without_lines()


def test_closed_within_a_module_it_does_not_keep_that_one_either():
    class Closes(nn.Module):
        def forward(self, x):
            tagger.__exit__(None, None, None)
            return x + 1

    model = Closes()
    tagger = tagger_with(Log()).__enter__()
    model(torch.zeros(1))
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_ctrl_c_while_an_operator_is_reported_reaches_the_program():
    operators, seen = torch_cpu().operators, []

    def begin(name, overload, nodes):
        seen.append(name)
        operators.ignore()
        signal.raise_signal(signal.SIGINT)
        return OperatorAnswer.REPORTED

    operators.observe(begin)
    with pytest.raises(KeyboardInterrupt):
        torch.ones(3)
        time.sleep(60)
    assert seen


class AlarmError(Exception):
    pass


@pytest.fixture
def alarm_soon():
    """Return a function after which a signal handler raises `AlarmError` in 10 ms."""

    def ring(_number, _frame):
        raise AlarmError

    before = signal.signal(signal.SIGALRM, ring)
    yield lambda: signal.setitimer(signal.ITIMER_REAL, 0.01)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_an_error_of_a_signal_handler_ends_a_backward_pass(alarm_soon):
    """During the backward pass, operators call all Python code that the main thread runs."""
    x = torch.ones(1000, 1000, requires_grad=True)
    with logged() as log:
        y = x
        for _ in range(20):
            y = y @ x
        with pytest.raises(AlarmError):
            alarm_soon()
            y.sum().backward()
            time.sleep(60)
        log.numbers.clear()
        torch.ones(1)
    assert log.numbers


def test_a_forked_child_is_not_observed():
    """Observation would slow a worker of a data loader until it ends."""
    with logged() as log:
        child = os.fork()
        if child == 0:
            torch.ones(1)
            os._exit(len(log.numbers))
        _, status = os.waitpid(child, 0)
        torch.ones(1)
    assert os.waitstatus_to_exitcode(status) == 0
    assert len(log.numbers) == 1


def test_dynamo_is_not_imported_for_it(tmp_path):
    """An import of Dynamo takes seconds and 60 MiB."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, torch\n"
        "from pgmo.allocator.adapters.torch_cpu import torch_cpu\n"
        "from pgmo.profiler.tagging.tags import Tagger\n"
        "with Tagger(lambda number: None, torch_cpu().operators) as tagger:\n"
        "    torch.ones(3).add(1)\n"
        "assert 'aten.add' in {tag.op for tag in tagger.tags}\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    subprocess.run([sys.executable, script], check=True)
