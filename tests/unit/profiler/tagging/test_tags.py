import gc
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from pgmo.profiler.profile import Tag  # noqa: E402
from pgmo.profiler.tagging.tags import Tagger  # noqa: E402
from tests.unit.profiler.networks import NETWORKS, Log, Net, logged, tagger_with  # noqa: E402

ROOT = Path(__file__).parents[4]


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
            with tagger_with(log):
                one()
            logs.append(log.tags())
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
    phases = [tag.phase for tag in tags if tag.phase not in ("other", "recompute")]
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
    # In the backward pass, only operators of the loss, outside of the model, have no module.
    lost = {tag.op for tag in tags if tag.phase == "backward" and not tag.module}
    assert lost <= {"aten.expand", "aten.div", "aten.pow", "aten.mul"}


def _forward_and_backward(name):
    return tuple(_of_phase(name, phase) for phase in ("forward", "backward"))


def _of_phase(name, phase):
    tags = _train(name, 1, tagged=True)[2][0]
    return {(tag.module, tag.op) for tag in tags if tag.phase == phase}


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


def test_a_checkpoint_computes_again_under_its_full_name():
    again, backward = (_of_phase("checkpointed", phase) for phase in ("recompute", "backward"))
    for block in (0, 1):
        assert (f"Net.blocks.{block}.mlp.1", "aten.gelu") in again
        assert (f"Net.blocks.{block}.mlp.1", "aten.gelu") not in backward
        assert (f"Net.blocks.{block}.mlp.1", "aten.gelu_backward") in backward


def test_the_backward_pass_of_an_activation_in_place_is_its_own():
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(inplace=True), nn.Linear(8, 8))
    with logged() as log:
        net(torch.ones(2, 8)).sum().backward()
    modules = {tag.module for tag in log.tags() if tag.op == "aten.threshold_backward"}
    assert modules == {"Sequential.1"}


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

    with logged() as log:
        Whole()(torch.zeros(2, 8)).sum().backward()
    modules = {tag.module for tag in log.tags() if tag.op == "aten.addmm"}
    assert modules == {"Whole.left.inner", "Whole.right.inner"}
    # The gradients of the shared layer are accumulated under the name of its parameter's module.
    assert {tag.module for tag in log.tags() if tag.phase == "backward"} > modules


def test_two_models_of_one_class_are_distinguished():
    one, two = nn.Linear(2, 2), nn.Linear(2, 2)
    with logged() as log, torch.no_grad():
        for model in (one, two, one):
            model(torch.zeros(1, 2))
    names = [tag.module for tag in log.tags() if tag.op == "aten.addmm"]
    assert names == ["Linear", "Linear#2", "Linear"]


def test_a_model_that_the_program_drops_dies_meanwhile():
    """A live part of a deleted model keeps its name."""
    with logged() as log:
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        model(torch.ones(1, 4)).sum().backward()
        part = model[1]
        dead = [weakref.ref(model), weakref.ref(model[0])]
        del model
        gc.collect()
        assert [one() for one in dead] == [None, None]
        part(torch.ones(1, 4))
    assert log.tags()[-1].module == "Sequential.1"


def test_blocks_have_the_line_of_the_users_own_code():
    class Squares(nn.Module):
        def forward(self, x):
            return x.pow(2)

    with logged() as log:
        x = torch.ones(3, requires_grad=True)
        Squares()(x).sum().backward()
    first = Squares.forward.__code__.co_firstlineno + 1
    lines = {(tag.op, tag.phase): tag.file for tag in log.tags()}
    here = "test_blocks_have_the_line_of_the_users_own_code"
    assert lines["aten.pow", "forward"] == f"test_tags.py:{first} in forward"
    assert lines["aten.ones", "other"] == f"test_tags.py:{first + 3} in {here}"
    # In the backward pass, a block has the line that made the graph's node.
    assert lines["aten.pow", "backward"] == f"test_tags.py:{first} in forward"


def test_an_exception_leaves_a_clean_stack():
    class Fails(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x):
            return self.linear(x).view(3, 1000)

    with logged() as log:
        for _ in range(2):
            with pytest.raises(RuntimeError):
                Fails()(torch.zeros(2, 8))
        torch.ones(3)
    assert log.without_lines()[-1] == Tag("", "aten.ones", "other")
    assert log.now == {threading.get_ident(): -1}


def test_an_optimizer_that_fails_does_not_stay():
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def fail():
        raise RuntimeError("closure")

    with logged() as log:
        with pytest.raises(RuntimeError, match="closure"):
            optimizer.step(fail)
        optimizer.step()
        torch.ones(3)
    assert log.tags()[-1].phase == "other"


def test_nothing_stays_registered():
    from torch.nn.modules import module

    hooks = (module._global_forward_pre_hooks, module._global_forward_hooks)
    before = [len(registered) for registered in hooks]
    log = Log()
    with pytest.raises(KeyError), tagger_with(log):
        raise KeyError
    assert [len(registered) for registered in hooks] == before
    Net()(torch.zeros(1, 8))
    assert log.numbers == []


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
    tagger = tagger_with(log)
    original = Tagger.__enter__

    def enter(self):
        with monkeypatch.context() as patch:
            patch.setattr(torch, "_C", Core())
            from pgmo.profiler.tagging.tags import _Private

            private = _Private()
        result = original(self)
        self._private = private
        return result

    monkeypatch.setattr(Tagger, "__enter__", enter)
    with tagger:
        Net()(torch.zeros(2, 8)).sum().backward()
    tags = log.without_lines()
    assert Tag("Net.head", "aten.addmm", "forward") in tags
    assert any(tag.op == "aten.gelu_backward" for tag in tags)


def test_blocks_have_the_users_line_if_the_package_is_found_through_a_relative_path(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(
        f"""\
import sys
sys.path.insert(0, {os.path.relpath(ROOT, tmp_path)!r})
import torch
from tests.unit.profiler.networks import tagger_with
with tagger_with(lambda number: None) as tagger:
    torch.ones(2) + 1
print(tagger.tags[0].file)
"""
    )
    own = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    run = subprocess.run(
        [sys.executable, program], cwd=tmp_path, env=own, capture_output=True, text=True, check=True
    )
    assert run.stdout == "train.py:6 in <module>\n"
