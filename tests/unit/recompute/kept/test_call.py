import copy
import importlib.util
import os
import sys
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional

import pgmo
from pgmo.recompute.runtime import dispatch

SCALE = 1.0
LAYERS = 2


def activation(x):
    return x.relu()


class Net(nn.Module):
    """Statistics, dropout, a mask that is asked for its values, and two results."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(LAYERS))
        self.convs = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(LAYERS))
        self.head, self.unused = nn.Linear(8, 5), nn.Linear(8, 5)
        self.weight = 0.5

    def forward(self, images, labels, mask=None):
        x = self.first(images)
        for norm, conv in zip(self.norms, self.convs, strict=True):
            x = x + functional.dropout(conv(activation(norm(x))), 0.25, self.training)
        if mask is not None and not mask.all():
            x = x * mask[:, None, None, None]
        pooled = x.mean((2, 3))
        logits = self.head(pooled) * SCALE
        loss = functional.cross_entropy(logits, labels) * self.weight
        return {"loss": loss, "logits": logits, "other": self.unused(pooled)}


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PGMO_CACHE_DIR", str(tmp_path / "cache"))


def batch(seed=0, **more):
    torch.manual_seed(seed)
    return {"images": torch.randn(4, 3, 16, 16), "labels": torch.randint(5, (4,)), **more}


def made():
    torch.manual_seed(0)
    return Net()


def step(model, given, wanted=("loss",), seed=0):
    """Results, gradients and buffers of a step."""
    torch.manual_seed(seed)
    model.zero_grad(set_to_none=True)
    results = model(**given)
    torch.autograd.backward([results[name].sum() for name in wanted])
    gradients = {
        name: None if one.grad is None else one.grad.clone()
        for name, one in model.named_parameters()
    }
    return results, gradients, {name: one.clone() for name, one in model.named_buffers()}


def same(one, other):
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        found = other[name]
        assert (tensor is None) == (found is None), name
        assert tensor is None or torch.equal(tensor, found), name


def recomputed(net=None, given=None, budget=0.8):
    return pgmo.recompute(net or made(), given or batch(), budget=budget, keep=True)


def keep(given=None, budget=0.8):
    """Runs a step and the next one, with which it is written."""
    model, plan = recomputed(given=given, budget=budget)
    for _ in range(3):
        step(model, given or batch())
    return plan


def test_what_was_written_is_read_and_has_the_same_bits(monkeypatch):
    first = keep()
    assert not first.was_kept

    def refuse(*_):
        raise AssertionError("captured again")

    monkeypatch.setattr(dispatch, "CapturedCall", type("Refusing", (), {"__init__": refuse}))
    plain, net = made(), made()
    model, plan = recomputed(net)
    assert plan.was_kept
    for seed in range(3):
        expected, found = step(plain, batch(seed), seed=seed), step(model, batch(seed), seed=seed)
        for one, other in zip(expected, found, strict=True):
            same(one, other)
    assert plan.recomputed == first.recomputed
    assert plan.explain() == first.explain()
    assert plan.measured_peak == first.measured_peak
    assert plan.curve(points=2).choices[-1].overhead == 0


def test_gradients_of_other_results_are_right_and_none_stays_none():
    keep()
    plain, net = made(), made()
    model, plan = recomputed(net)
    step(plain, batch()), step(model, batch())
    wanted = ("loss", "logits")
    expected, found = step(plain, batch(1), wanted), step(model, batch(1), wanted)
    assert plan.was_kept
    assert found[1]["unused.weight"] is None
    for name, one in expected[1].items():
        assert one is None or torch.allclose(one, found[1][name], atol=1e-6), name
    with pytest.warns(UserWarning, match="other outputs are differentiated"):
        again = step(model, batch(2), wanted)
    same(step(plain, batch(2), wanted)[1], again[1])


def test_a_value_that_was_read_of_a_tensor_is_compared():
    given = batch(mask=torch.ones(4, dtype=torch.bool))
    keep(given)
    plain, net = made(), made()
    model, plan = recomputed(net, given)
    assert plan.was_kept
    for mask in ([1, 1, 1, 1], [1, 0, 1, 1], [1, 1, 1, 1]):
        given = batch(mask=torch.tensor(mask, dtype=torch.bool))
        expected, found = step(plain, given), step(model, given)
        same(expected[0], found[0])
        same(expected[1], found[1])


def other_attribute(net, monkeypatch):
    net.weight = 0.25


def other_global(net, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 2.0)


def other_function(net, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "activation", torch.tanh)


def other_method(net, monkeypatch):
    original = Net.forward

    def forward(self, images, labels, mask=None):
        return original(self, 2 * images, labels, mask)

    monkeypatch.setattr(Net, "forward", forward)


def other_mode(net, monkeypatch):
    net.norms[0].eval()


def other_option(net, monkeypatch):
    net.norms[0].eps = 0.1


def frozen(net, monkeypatch):
    net.first.requires_grad_(False)


@pytest.mark.parametrize(
    "change",
    [other_attribute, other_global, other_function, other_method, other_mode, other_option, frozen],
)
def test_what_has_changed_is_captured(change, monkeypatch):
    keep()
    plain, net = made(), made()
    change(plain, monkeypatch), change(net, monkeypatch)
    model, plan = recomputed(net)
    assert not plan.was_kept
    same(step(plain, batch())[1], step(model, batch())[1])


def test_what_changes_later_is_captured():
    keep()
    plain, net = made(), made()
    model, plan = recomputed(net)
    assert plan.was_kept
    plain.weight = net.weight = 0.125
    with pytest.warns(UserWarning, match="weight is 0.125 and was 0.5"):
        found = step(model, batch())
    same(step(plain, batch())[1], found[1])


@pytest.mark.parametrize("given", [batch(), batch(mask=torch.ones(4, dtype=torch.bool))])
def test_another_call_or_budget_is_another_file(given, tmp_path):
    keep(budget=0.8)
    assert not recomputed(budget=0.9)[1].was_kept
    assert recomputed(given=given)[1].was_kept == ("mask" not in given)


SOURCE = """
import torch
from torch import nn

class Written(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).tanh()
        return (x * 2).mean()
"""


def written(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    return module.Written()


def test_a_file_that_was_edited_is_captured(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "kept_step_model.py"
    path.write_text(SOURCE)
    x = torch.randn(64, 8)

    def kept():
        model, plan = pgmo.recompute(written(path, path.stem), x, budget=0.9, keep=True)
        for _ in range(3):
            model(x).backward()
        return plan.was_kept

    try:
        assert [kept(), kept()] == [False, True]
        path.write_text(SOURCE.replace("* 2", "* 3"))
        assert [kept(), kept()] == [False, True]
    finally:
        del sys.modules[path.stem]


def steps(tmp_path):
    return sorted((tmp_path / "cache" / "steps").glob("*.step"))


def cut_off(path):
    path.write_bytes(path.read_bytes()[:-100])


def renamed(path):
    path.write_bytes(b"something else")


def open_to_all(path):
    path.chmod(0o666)


@pytest.mark.parametrize("harm", [cut_off, renamed, open_to_all])
def test_what_cannot_be_trusted_is_captured_and_written_anew(harm, tmp_path):
    keep()
    (path,) = steps(tmp_path)
    harm(path)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert not keep().was_kept
    assert any("can be written by others" in str(one.message) for one in told) == (
        harm is open_to_all
    )
    assert recomputed()[1].was_kept
    assert path.stat().st_mode & 0o022 == 0


def test_nothing_is_written_unless_it_is_asked_for(tmp_path):
    model, _ = pgmo.recompute(made(), batch(), budget=0.8)
    for _ in range(3):
        step(model, batch())
    assert not steps(tmp_path)


class Cache:
    """As libraries return them: tensors, and words about them."""

    def __init__(self, keys):
        self.keys, self.device, self.kind = keys, keys.device, keys.dtype


class Caching(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        hidden = self.layer(x).tanh()
        return hidden.mean(), Cache(hidden * 2)


def test_objects_that_are_returned_are_made_anew():
    x, found = torch.randn(64, 8), []
    for _ in range(2):
        torch.manual_seed(0)
        model, plan = pgmo.recompute(Caching(), x, budget=None, keep=True)
        for _ in range(3):
            loss, cache = model(x)
            loss.backward()
        found.append((plan.was_kept, cache))
    (first, one), (second, other) = found
    assert (first, second) == (False, True)
    assert torch.equal(one.keys, other.keys)
    assert (other.device, other.kind) == (x.device, torch.float32)


class Same(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x).tanh().mean(), x


def test_what_cannot_be_kept_is_said(tmp_path):
    x = torch.randn(64, 8)
    model, _ = pgmo.recompute(Same(), x, budget=None, keep=True)
    with pytest.warns(UserWarning, match="not kept for other processes: a result shares memory"):
        for _ in range(3):
            model(x)[0].backward()
    assert not steps(tmp_path)


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "cache").write_text("")
    with pytest.warns(UserWarning, match="the captured step is not kept"):
        assert not keep().was_kept


def test_copies_read_what_was_written():
    keep()
    model, _ = recomputed()
    twin = copy.deepcopy(model)
    same(step(model, batch())[1], step(twin, batch())[1])


def test_few_are_left(tmp_path, monkeypatch):
    from pgmo.recompute.kept import store

    monkeypatch.setattr(store, "_MOST", 2)
    for number in range(4):
        assert store.write(str(number), number)
        os.utime(tmp_path / "cache" / "steps" / f"{number}.step", (number, number))
    assert store.read("3") == 3
    assert store.read("0") is None
    store.remove("3")
    assert store.read("3") is None


def test_a_share_of_a_longer_step_is_not_kept_for_a_shorter_one():
    blocks = (nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16)) for _ in range(4))
    net = nn.Sequential(*blocks)
    long, short = torch.ones(512, 16), torch.ones(64, 16)
    model, _ = pgmo.recompute(copy.deepcopy(net), (long,), 0.7, keep=True, measure=False)
    for x in (long, long, short, short):
        model(x).sum().backward()
    _, plan = pgmo.recompute(copy.deepcopy(net), (short,), 0.7, keep=True, measure=False)
    assert not plan.was_kept
    assert plan.peak <= 0.7 * plan.default_peak
    _, plan = pgmo.recompute(copy.deepcopy(net), (long,), 0.7, keep=True, measure=False)
    assert plan.was_kept
