import gc
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
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from pgmo.profiler import operator_mode  # noqa: E402
from pgmo.profiler.profile import Tag  # noqa: E402
from pgmo.profiler.tags import Tagger  # noqa: E402


class Log:
    """Stands in for the engine: keeps the tags in order, and the number in force on each thread."""

    def __init__(self):
        self.numbers = []
        self.now = {}

    def __call__(self, number):
        self.now[threading.get_ident()] = number
        if number >= 0:
            self.numbers.append(number)

    def tags(self, tagger):
        return [tagger.tags[number] for number in self.numbers]


class Block(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class Net(nn.Module):
    def __init__(self, checkpointed=False):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(8, 8)
        self.checkpointed = checkpointed

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return self.head(x)


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.classify = nn.Linear(4, 8)

    def forward(self, x):
        return self.classify(self.features(x).mean((2, 3)))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 8)

    def forward(self, x):
        return self.lstm(x)[0]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)

    def forward(self, x):
        return self.layer(x)


NETWORKS = {
    "blocks": (Net, (4, 8)),
    "checkpointed": (lambda: Net(True), (4, 8)),
    "conv": (ConvNet, (2, 1, 8, 8)),
    "lstm": (Lstm, (5, 2, 8)),
    "attention": (Attention, (2, 5, 8)),
}


def _train(name, steps, tagged):
    torch.manual_seed(0)
    make, shape = NETWORKS[name]
    model = make()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses, logs = [], []
    for step in range(steps):
        log = Log()
        inputs = torch.randn(shape)

        def one(inputs=inputs):
            optimizer.zero_grad(set_to_none=True)
            loss = model(inputs).pow(2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())

        if tagged and step != 1:
            with Tagger(log) as tagger:
                one()
            logs.append(log.tags(tagger))
        else:
            one()
    return losses, [parameter.detach() for parameter in model.parameters()], logs


@pytest.mark.parametrize("name", NETWORKS)
def test_losses_and_weights_are_the_same_bit_for_bit(name):
    losses, weights, _ = _train(name, 4, tagged=False)
    tagged_losses, tagged_weights, _ = _train(name, 4, tagged=True)
    assert all(map(torch.equal, losses, tagged_losses))
    assert all(map(torch.equal, weights, tagged_weights))


@pytest.mark.parametrize("name", NETWORKS)
def test_phases_come_in_order_and_parameters_have_modules(name):
    *_, tags = _train(name, 3, tagged=True)[2]
    phases = [tag.phase for tag in tags if tag.phase != "other"]
    assert [p for at, p in enumerate(phases) if at == 0 or phases[at - 1] != p] == [
        "forward",
        "backward",
        "optimizer",
    ]
    root = type(NETWORKS[name][0]()).__name__
    for tag in tags:
        if tag.phase == "optimizer":
            assert tag.module == "Adam"
        elif tag.module:
            assert tag.module.startswith(root)
    # All that the backward pass computes, but for the loss outside of the model, has a module.
    lost = {tag.op for tag in tags if tag.phase == "backward" and not tag.module}
    assert lost <= {"aten.expand", "aten.div", "aten.pow", "aten.mul"}


def _forward_and_backward(name):
    tags = _train(name, 1, tagged=True)[2][0]
    return tuple({(t.module, t.op) for t in tags if t.phase == p} for p in ("forward", "backward"))


def test_each_operator_of_nested_modules():
    forward, backward = _forward_and_backward("blocks")
    for block in ("Net.blocks.0", "Net.blocks.1"):
        assert (f"{block}.norm", "aten.native_layer_norm") in forward
        assert (f"{block}.mlp.0", "aten.addmm") in forward
        assert (f"{block}.mlp.1", "aten.gelu") in forward
        assert (f"{block}.mlp.2", "aten.addmm") in forward
        assert (block, "aten.add") in forward
        assert (f"{block}.norm", "aten.native_layer_norm_backward") in backward
        assert (f"{block}.mlp.0", "aten.mm") in backward
        assert (f"{block}.mlp.1", "aten.gelu_backward") in backward
    assert {module for module, op in forward if op == "aten.addmm"} == {
        *(f"Net.blocks.{block}.mlp.{layer}" for block in (0, 1) for layer in (0, 2)),
        "Net.head",
    }
    assert ("", "aten.pow") in forward


def test_convolutions_and_lstm():
    forward, backward = _forward_and_backward("conv")
    assert ("ConvNet.features.0", "aten.convolution") in forward
    assert ("ConvNet", "aten.mean") in forward
    assert ("ConvNet.features.0", "aten.convolution_backward") in backward
    assert ("ConvNet.features.1", "aten.native_batch_norm_backward") in backward
    forward, backward = _forward_and_backward("lstm")
    assert {module for module, _ in forward} == {"Lstm.lstm", ""}
    assert "Lstm.lstm" in {module for module, _ in backward}


def test_a_checkpoint_computes_again_under_its_full_name():
    _, backward = _forward_and_backward("checkpointed")
    for block in (0, 1):
        assert (f"Net.blocks.{block}.mlp.1", "aten.gelu") in backward
        assert (f"Net.blocks.{block}.mlp.1", "aten.gelu_backward") in backward


def test_shared_modules_have_the_name_below_their_caller():
    shared = nn.Linear(8, 8)

    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = shared

        def forward(self, x):
            return self.inner(x)

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right = Half(), Half()

        def forward(self, x):
            return self.left(x) + self.right(x)

    log = Log()
    with Tagger(log) as tagger:
        Whole()(torch.zeros(2, 8)).sum().backward()
    modules = {tag.module for tag in log.tags(tagger) if tag.op == "aten.addmm"}
    assert modules == {"Whole.left.inner", "Whole.right.inner"}
    # A gradient that both made is accumulated by the module that has the parameter.
    assert {tag.module for tag in log.tags(tagger) if tag.phase == "backward"} > modules


def test_two_models_of_one_class_are_told_apart():
    log = Log()
    one, two = nn.Linear(2, 2), nn.Linear(2, 2)
    with Tagger(log) as tagger, torch.no_grad():
        for model in (one, two, one):
            model(torch.zeros(1, 2))
    names = [tag.module for tag in log.tags(tagger) if tag.op == "aten.addmm"]
    assert names == ["Linear", "Linear#2", "Linear"]


def test_an_exception_leaves_a_clean_stack():
    class Fails(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x):
            return self.linear(x).view(3, 1000)

    log = Log()
    with Tagger(log) as tagger:
        for _ in range(2):
            with pytest.raises(RuntimeError):
                Fails()(torch.zeros(2, 8))
        torch.ones(3)
    assert log.tags(tagger)[-1] == Tag("", "aten.ones", "other")
    assert log.now == {threading.get_ident(): -1}


def test_an_optimizer_that_fails_does_not_stay():
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def fail():
        raise RuntimeError("closure")

    log = Log()
    with Tagger(log) as tagger:
        with pytest.raises(RuntimeError, match="closure"):
            optimizer.step(fail)
        optimizer.step()
        torch.ones(3)
    assert log.tags(tagger)[-1].phase == "other"


def test_nothing_stays_registered():
    from torch.nn.modules import module

    hooks = (module._global_forward_pre_hooks, module._global_forward_hooks)
    before = [len(registered) for registered in hooks]
    log = Log()
    with pytest.raises(KeyError), Tagger(log):
        raise KeyError
    assert [len(registered) for registered in hooks] == before
    Net()(torch.zeros(1, 8))
    assert log.numbers == []


# --- the program's own dispatch modes ------------------------------------------------------------


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


@pytest.mark.skipif(
    not hasattr(TorchDispatchMode, "ignore_compile_internals"),
    reason="this torch compiles nothing within a dispatch mode",
)
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


def test_a_mode_entered_later_goes_on_when_the_tagger_is_closed_before_it():
    log = Log()
    matrix = torch.ones(4, 4)
    tagger = Tagger(log).__enter__()
    with FlopCounterMode(display=False) as counted:
        matrix @ matrix
        once = counted.get_total_flops()
        assert once > 0
        tagger.__exit__(None, None, None)
        matrix @ matrix
        assert counted.get_total_flops() == 2 * once
        assert is_in_torch_dispatch_mode()
    assert len(log.numbers) == 1
    assert _no_mode_is_left()


def test_modes_above_keep_their_order_and_are_not_entered_again():
    outer, inner = Seen(), Seen()
    tagger = Tagger(Log()).__enter__()
    with outer, inner:
        tagger.__exit__(None, None, None)
        assert _get_current_dispatch_mode_stack() == [outer, inner]
        torch.ones(1)
    assert outer.operators == inner.operators == ["aten.ones.default"]
    assert outer.entered == inner.entered == 1
    assert _no_mode_is_left()


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


def test_once_closed_it_keeps_no_module_alive():
    log, model = Log(), Net()
    with Tagger(log) as tagger:
        model(torch.zeros(2, 8)).sum().backward()
    model_gone = weakref.ref(model)
    del model
    gc.collect()
    assert model_gone() is None
    assert Tag("Net.head", "aten.addmm", "forward") in log.tags(tagger)


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


@pytest.mark.parametrize(
    "missing", ["_current_graph_task_id", "_current_autograd_node", "_autograd"]
)
def test_without_a_private_function_it_says_less(monkeypatch, missing):
    class Core:
        def __getattr__(self, name):
            if name == missing:
                raise AttributeError(name)
            return getattr(core, name)

    core = torch._C
    log = Log()
    tagger = Tagger(log)
    original = Tagger.__enter__

    def enter(self):
        with monkeypatch.context() as patch:
            patch.setattr(torch, "_C", Core())
            from pgmo.profiler.tags import _Private

            private = _Private()
        result = original(self)
        self._private = private
        return result

    monkeypatch.setattr(Tagger, "__enter__", enter)
    with tagger:
        Net()(torch.zeros(2, 8)).sum().backward()
    tags = log.tags(tagger)
    assert Tag("Net.head", "aten.addmm", "forward") in tags
    assert any(tag.op == "aten.gelu_backward" for tag in tags)
