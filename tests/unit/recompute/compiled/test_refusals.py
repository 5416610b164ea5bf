"""Tests of models, hooks and calls that are refused, and of the messages."""

import functools
import re
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import pgmo
from pgmo.errors import GraphError
from pgmo.recompute.compiled import model as compiled_model
from tests.unit.recompute.steps import same, step

X = torch.ones(4, 8)


def net():
    return nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.GELU(), nn.Linear(8, 8)))


def watch(*_arguments):
    """Serve as a hook that does nothing."""


def made(model, *inputs):
    return pgmo.recompute(model, inputs or X, 1.0, measure=False)[0]


@pytest.fixture
def group(tmp_path):
    if not torch.distributed.is_available():
        pytest.skip("PyTorch was built without torch.distributed")
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def test_ddp_goes_around_the_model_that_recomputes(group):
    plain = net()
    wrapped = DistributedDataParallel(plain)
    with pytest.raises(
        pgmo.errors.GraphError, match=r"pgmo\.recompute\(model\.module, \.\.\.\)\[0\]"
    ):
        made(wrapped)
    with pytest.raises(pgmo.errors.GraphError, match=r"^0 is a DistributedDataParallel"):
        made(nn.Sequential(wrapped))
    wrapped = DistributedDataParallel(made(plain))
    for _ in range(3):
        wrapped.zero_grad()
        wrapped(X).sum().backward()
    assert plain[0].weight.grad is not None


def test_data_parallel_models_are_refused():
    with pytest.raises(pgmo.errors.GraphError, match="a process for each device"):
        made(nn.DataParallel(nn.Linear(8, 8)))


def test_compiled_models():
    inplace = nn.Linear(8, 8)
    inplace.compile(backend="eager")
    for model in (torch.compile(nn.Linear(8, 8), backend="eager"), inplace):
        with pytest.raises(pgmo.errors.GraphError, match="the model is compiled"):
            made(model)


def test_parameters_without_shapes():
    model = nn.Sequential(nn.LazyLinear(8), nn.LazyBatchNorm1d())
    with pytest.raises(pgmo.errors.GraphError, match=r"0\.weight has no shape yet"):
        made(model)
    model(X)
    made(model)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("register_full_backward_hook", "backward hook"),
        ("register_full_backward_pre_hook", "backward pre-hook"),
    ],
)
def test_backward_hooks_of_submodules_are_refused_by_name_whenever_they_come(kind, words):
    plain = net()
    handle = getattr(plain[1][0], kind)(watch)
    message = rf"1\.0 has a {words}, `watch` \(.*test_refusals\.py:\d+\).*register_hook"
    with pytest.raises(pgmo.errors.GraphError, match=message):
        made(plain)
    handle.remove()
    model = made(plain)
    model(X).sum().backward()
    handle = getattr(plain[1][0], kind)(functools.partial(watch, None))
    with pytest.raises(pgmo.errors.GraphError, match=message):
        model(X)
    handle.remove()
    model(X).sum().backward()


def test_hooks_of_all_modules():
    model = made(net())
    handle = nn.modules.module.register_module_forward_hook(watch)
    try:
        with pytest.raises(pgmo.errors.GraphError, match="a forward hook for all modules, `watch`"):
            model(X)
    finally:
        handle.remove()
    model(X).sum().backward()


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.fails, self.word = nn.Linear(8, 8), "", ""

    def forward(self, x, y):
        if self.fails == "before":
            raise KeyError("before anything is captured")
        hidden = self.layer(x)
        if self.fails == "between":
            torch._dynamo.graph_break()
            raise KeyError("between graphs")
        return ((hidden + y) * (2 if self.word == "2" else 1)).sum()


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ((X,), "missing a required argument: 'y'. It takes (x, y)"),
        ((X, X, X), "too many positional arguments. It takes (x, y)"),
        ({"x": X, "z": 1}, "missing a required argument: 'y'"),
    ],
)
def test_arguments_that_forward_does_not_take_are_named(inputs, words):
    with pytest.raises(pgmo.errors.GraphError, match=re.escape(words)):
        pgmo.recompute(Two(), inputs)


def test_a_wrong_shape_names_the_line_and_logs_nothing(capfd):
    with pytest.raises(
        pgmo.errors.GraphError, match=r"4, 7.*test_refusals\.py:\d+: hidden = self\.layer\(x\)"
    ) as reported:
        made(Two(), torch.ones(4, 7), X)
    assert "check the shapes of its inputs first" in str(reported.value)
    assert "\n" not in str(reported.value)
    assert "Traceback" not in capfd.readouterr().err


def test_a_model_that_dynamo_leaves_out():
    class Left(nn.Linear):
        @torch._dynamo.disable
        def forward(self, x):
            return super().forward(x)

    with pytest.raises(pgmo.errors.GraphError, match="no part of Left"):
        made(Left(8, 8))


def test_nothing_needs_gradients():
    with pytest.raises(pgmo.errors.GraphError, match="no captured result of the model needs"):
        made(net().requires_grad_(False))


@pytest.mark.filterwarnings("ignore:the forward pass is not a single graph")
@pytest.mark.parametrize("fails", ["before", "between"])
def test_after_an_error_amid_a_step_the_next_ones_are_planned(fails):
    plain = Two()
    model = made(plain, X, X)
    plain.fails = fails
    for _ in range(2):
        with pytest.raises((KeyError, pgmo.errors.GraphError), match=fails):
            model(X, X)
    plain.fails = ""
    for rows in (4, 3):
        inputs = torch.ones(rows, 8), torch.ones(rows, 8)
        graphs = model.forward._graphs
        assert same(step(model, *inputs), step(plain, *inputs))
        assert model.forward._graphs > graphs
        assert all(one is not None for one in model.forward.steps.values())


def test_after_wrong_shapes_other_calls_are_planned_and_other_functions_stay_compiled():
    captured = []
    other = torch.compile(torch.sin, backend=lambda module, _: captured.append(1) or module)
    other(X)
    plain = Two()
    model = made(plain, X, X)
    with pytest.raises(pgmo.errors.GraphError, match="4, 7"):
        model(torch.ones(4, 7), X)
    other(X)
    assert len(captured) == 1
    inputs = torch.ones(3, 8), torch.ones(3, 8)
    assert same(step(model, *inputs), step(plain, *inputs))
    assert len(model.forward.steps) == 2


@pytest.mark.filterwarnings("error")
def test_a_capture_amid_a_step_gives_no_warning_of_its_own():
    class Scaled(nn.Linear):
        scale = 1.0

        def forward(self, x):
            return (super().forward(x) * self.scale).sum()

    before = nn.Linear(8, 8)
    model = made(Scaled(8, 8), before(X))
    model.scale = 2.0
    model(before(X)).backward()
    assert model.forward._graphs == 2


def test_values_that_change_in_each_step_are_refused_after_many_captures(monkeypatch):
    monkeypatch.setattr(compiled_model, "MOST_CAPTURES", 3)
    plain = Two()
    model = made(plain, X, X)

    def run():
        for number in range(20):
            plain.word = f"word {number}"
            model(X, X).backward()

    with pytest.raises(pgmo.errors.GraphError, match=r"again in 3 steps.*'word \d.*tensor"):
        run()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("number", "the value of a tensor is read"),
        ("decision", "Python branches on the value of a tensor"),
        ("size", "the size of a tensor depends on the values of another tensor"),
        ("disabled", r"torch\.compiler\.disable\(\) is in effect"),
        ("unknown", "a function is called that Dynamo cannot capture"),
    ],
)
def test_graph_breaks_are_named_with_the_line(name, words):
    message = rf"not a single graph: {words}, at .*test_refusals\.py:\d+: .*# {name}"
    with pytest.raises(pgmo.errors.GraphError, match=message) as reported:
        pgmo.recompute(GraphBreaks(name), X, whole=True, measure=False)
    assert "\n" not in str(reported.value)
    plain = GraphBreaks(name)
    with pytest.warns(UserWarning, match=message):
        model = made(plain)
    assert same(step(model, X), step(plain, X))


@torch._dynamo.disable
def disabled(x):
    return x


class GraphBreaks(nn.Linear):
    def __init__(self, name):
        super().__init__(8, 8)
        self.name = name

    def forward(self, x):
        x = super().forward(x)
        if self.name == "number":
            x = x * x.sum().item()  # number
        elif self.name == "decision":
            x = x if x.sum() > 0 else -x  # decision
        elif self.name == "size":
            x = x[x.sum(1).nonzero()[:, 0]]  # size
        elif self.name == "disabled":
            x = disabled(x)  # disabled
        elif self.name == "unknown":
            print(end="")  # unknown
        return x.square().sum()


def test_no_first_capture_inside_of_ddp_with_a_static_graph(monkeypatch):
    active = SimpleNamespace(static_graph=True)
    ours, _ = pgmo.recompute(nn.Linear(8, 8), budget="min")
    monkeypatch.setattr(nn.parallel.DistributedDataParallel, "_active_ddp_module", active)
    with pytest.raises(GraphError, match="Capture the model before it is wrapped"):
        ours(torch.ones(4, 8))
