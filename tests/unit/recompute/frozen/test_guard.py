"""What Python code did while a step was captured is noticed when it would do something else."""

import argparse
import enum
import functools
import logging
import os
import random
from collections import deque
from dataclasses import dataclass

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import pgmo  # noqa: E402
from pgmo.recompute.runtime.twin import original  # noqa: E402

X = torch.ones(8, 16)
SCALE = 1.0
SCALES = {"one": 1.0}
OPTIONS = argparse.Namespace(scale=1.0)
GENERATOR = random.Random(0)


class Mode(enum.Enum):
    PLAIN = 1
    OTHER = 2


@dataclass
class Config:
    scale: float = 1.0


class Net(nn.Module):
    """Its loss depends on all kinds of things that are no tensors."""

    common = 1.0

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(16, 16), nn.Linear(16, 16)
        self.kl_weight, self.unread, self.mode = 0.0, 0, Mode.PLAIN
        self.weights, self.names = [1.0, 2.0], {"scale": 1.0}
        self.config, self.function = Config(), torch.sigmoid
        self.eps = float("nan")

    @property
    def scale(self):
        return self.weights[0] * self.names["scale"] * self.config.scale

    def forward(self, x):
        y = self.last(self.function(self.first(x))) * (2.0 if self.mode is Mode.PLAIN else 1.0)
        loss = y.square().mean() * self.scale + self.kl_weight * y.abs().mean()
        loss = loss * getattr(self, "temperature", 1.0) * self.common * helped() * OPTIONS.scale
        return loss if self.eps != self.eps else 2 * loss


def helped():
    return SCALE * SCALES["one"]


def made(model=None):
    return pgmo.recompute(model or Net(), X, 1.0, measure=False, check=False)[0]


def captured_again(model, match):
    """Calls a model whose capture no longer holds: it says so, and computes what it should."""
    with pytest.warns(UserWarning, match="the step is captured again.*" + match):
        found = model(X)
    assert torch.equal(found, original(model)(X))


def changed(name):
    """Functions that change one thing of a model's."""
    return {
        "kl_weight": lambda model: setattr(model, "kl_weight", 0.5),
        "kl_weight as bool": lambda model: setattr(model, "kl_weight", False),
        "mode": lambda model: setattr(model, "mode", Mode.OTHER),
        "weights": lambda model: model.weights.append(1.0),
        "names": lambda model: model.names.update(scale=2.0),
        "scale of Config": lambda model: setattr(model.config, "scale", 2.0),
        "config": lambda model: setattr(model, "config", Config()),
        "function": lambda model: setattr(model, "function", torch.tanh),
        "temperature": lambda model: setattr(model, "temperature", 2.0),
        "common": lambda model: setattr(model, "common", 2.0),
        "eps": lambda model: delattr(model, "eps"),
    }[name]


@pytest.mark.parametrize(
    "name",
    [
        *("kl_weight", "kl_weight as bool", "mode", "weights", "names", "scale of Config"),
        *("config", "function", "temperature", "common", "eps"),
    ],
)
def test_an_attribute_that_was_read_and_is_another_now(name):
    plain = Net()
    model = made(plain)
    model(X).backward()
    changed(name)(plain)
    word = name.split()[0]
    if name == "eps":  # as the model itself would not run
        with pytest.raises(pgmo.GraphError, match=r"has no attribute 'eps'.*test_guard"):
            model(X)
        return
    captured_again(model, rf"{word}.* when the step was captured.*test_guard")
    with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "eps", float("nan"), raising=False)
        model(X)  # as it is


def test_what_is_put_back_is_as_it_was():
    model = made()
    model.kl_weight = 0.5
    captured_again(model, r"model\.kl_weight is 0\.5 and was 0\.0")
    model.kl_weight = 0.0
    model(X).backward()
    model.kl_weight = 0.5
    again = made(model)
    assert torch.equal(again(X), original(again)(X))


def test_what_is_not_read_may_change():
    model = made()
    for step in range(3):
        model.unread = model.epoch = step
        model(X).backward()


def test_globals_and_what_they_hold(monkeypatch):
    model = made()
    model(X).backward()
    monkeypatch.setattr(OPTIONS, "scale", 2.0)
    captured_again(model, r"Namespace\.scale is 2\.0 and was 1\.0.*test_guard")
    monkeypatch.undo()
    model(X).backward()
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    captured_again(model, r"the global SCALE is 2\.0.*return SCALE \\*")


def test_registries_may_grow(monkeypatch):
    model = made()
    monkeypatch.setitem(SCALES, "another", 3.0)
    model(X).backward()
    monkeypatch.setitem(SCALES, "one", 2.0)
    captured_again(model, "the global SCALES is")


class Defaults:
    scale = 1.0


class Special(Defaults):
    __slots__ = ("own",)

    def __init__(self):
        self.own = 1.0


class Tree:
    def __init__(self):
        self.inner = Defaults()


DEFAULTS, TREE = Defaults(), Tree()


class Scaled(nn.Linear):
    """Its loss has a factor, which is found in one of several ways."""

    def __init__(self, way, factor=None):
        super().__init__(16, 16)
        self.way, self.configs, self.factor = way, {"all": [Defaults(), Special()]}, factor
        self.log = logging.getLogger("scaled")

    def forward(self, x):
        self.log.debug("forward")
        loss = super().forward(x).square().mean()
        if self.way == "class":
            return loss * Defaults.scale
        if self.way == "object":
            return loss * DEFAULTS.scale
        if self.way == "tree":
            return loss * TREE.inner.scale
        if self.way == "list":
            return loss * self.configs["all"][0].scale * self.configs["all"][1].own
        return loss * self.factor()


@pytest.mark.parametrize(
    ("way", "owner"),
    [
        ("class", lambda _: Defaults),
        ("object", lambda _: DEFAULTS),
        ("object", lambda _: Defaults),
        ("tree", lambda _: TREE.inner),
        ("list", lambda model: model.configs["all"][0]),
    ],
)
def test_attributes_of_classes_and_of_objects_in_others(monkeypatch, way, owner):
    plain = Scaled(way)
    model = made(plain)
    model(X).backward()
    monkeypatch.setattr(owner(plain), "scale", 2.0)
    captured_again(model, r"Defaults\.scale is 2\.0 and was 1\.0.*test_guard")
    monkeypatch.undo()
    monkeypatch.setattr(owner(plain), "unread", 2.0, raising=False)
    model(X).backward()


def test_attributes_of_a_class_and_of_one_that_inherits_from_it():
    plain = Scaled("list")
    model = made(plain)
    model(X).backward()
    plain.configs["all"][1].own = 2.0
    captured_again(model, r"Special\.own is 2\.0 and was 1\.0.*test_guard")


def test_another_object_on_the_way_to_an_attribute(monkeypatch):
    model = made(Scaled("tree"))
    model(X).backward()
    monkeypatch.setattr(TREE, "inner", Defaults())
    model(X).backward()  # with the same contents
    TREE.inner.scale = 2.0
    captured_again(model, r"Defaults\.scale is 2\.0 and was 1\.0")


def test_what_a_function_reads_that_a_module_holds(monkeypatch):
    def define(factor):
        def change(value):
            nonlocal factor
            factor = value

        return (lambda: factor), change

    function, change = define(1.0)
    model = made(Scaled("function", function))
    model(X).backward()
    change(2.0)
    captured_again(model, r"factor of a closure is 2\.0 and was 1\.0")
    factors = [1.0]
    model = made(Scaled("function", lambda: factors[0] * SCALE))
    model(X).backward()
    factors[0] = 2.0
    captured_again(model, r"factors of a closure is \[2\.0\] and was of other")
    factors[0] = 1.0
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    captured_again(model, r"the global SCALE is 2\.0")


def test_a_logger_in_a_module_may_go_on():
    model = made(Scaled("class"))
    model(X).backward()
    logging.getLogger("scaled").info("a level that was not asked for yet")
    model(X).backward()


def test_a_forward_method_of_a_submodule_put_there_later_is_captured_anew():
    class Loss(nn.Sequential):
        def forward(self, x):
            return super().forward(x).square().mean()

    plain = Loss(nn.Linear(16, 16), nn.Tanh())
    model = made(plain)
    before = model(X)
    for function in (torch.sigmoid, lambda x: x):
        plain[1].forward = function
        assert torch.equal(model(X), original(model)(X))
    del plain[1].forward
    assert torch.equal(model(X), before)


def test_closures():
    def define(scale):
        class Scaled(nn.Linear):
            def forward(self, x):
                return super().forward(x).square().mean() * scale

        def change(value):
            nonlocal scale
            scale = value

        return Scaled(16, 16), change

    plain, change = define(1.0)
    model = made(plain)
    model(X).backward()
    change(2.0)
    captured_again(model, r"scale of a closure is 2\.0 and was 1\.0")


class Counts(nn.Linear):
    """Changes itself."""

    def __init__(self, what):
        super().__init__(16, 16)
        self.what, self.steps, self.seen, self.last, self.size = what, 0, [], None, None

    def forward(self, x):
        y = super().forward(x)
        if self.what == "steps":
            self.steps += 1
        elif self.what == "seen":
            self.seen.append(y.detach())
        elif self.what == "last":
            self.last = y
        else:
            self.size = tuple(x.shape)
        return y.square().mean()


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("steps", r"changes model\.steps each time.*test_guard\.py:\d+: self\.steps \+= 1"),
        ("seen", r"keeps a tensor in model\.seen, at .*self\.seen\.append"),
        ("last", r"keeps a tensor in model\.last, at .*self\.last = y"),
    ],
)
def test_a_forward_pass_that_changes_the_model_is_refused_and_leaves_it(what, message):
    plain = Counts(what)
    with pytest.raises(pgmo.GraphError, match=message):
        made(plain)
    assert plain.last is None
    assert plain.seen == []
    plain(X)


def test_a_forward_pass_may_note_what_stays_the_same():
    model = made(Counts("size"))
    model(X).backward()
    assert model.size == (8, 16)


class Draws(nn.Linear):
    def __init__(self, draw):
        super().__init__(16, 16)
        self.draw, self.own = draw, random.Random(0)

    def forward(self, x):
        y = super().forward(x).square().mean()
        if self.draw == "python":
            return y * random.random()
        if self.draw == "numpy":
            return y * float(np.random.rand())  # noqa: NPY002
        if self.draw == "global":
            return y * GENERATOR.random()
        return y * self.own.random()


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        ("python", r"draws random numbers of Python, at .*return y \* random\.random\(\)"),
        ("numpy", r"draws random numbers of NumPy, at .*np\.random\.rand"),
        ("own", r"changes model\.own"),
        ("global", r"changes the global GENERATOR"),
    ],
)
def test_random_numbers_that_are_not_of_pytorch(draw, message):
    before = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    with pytest.raises(pgmo.GraphError, match=message):
        made(Draws(draw))
    after = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    assert after == before


def test_another_module_in_the_place_of_one_is_captured_anew():
    class Loss(nn.Sequential):
        def forward(self, x):
            return super().forward(x).square().mean()

    model = made(Loss(nn.Linear(16, 16), nn.Tanh()))
    assert torch.equal(model(X), original(model)(X))
    model[1] = nn.Sigmoid()
    assert torch.equal(model(X), original(model)(X))


def test_types_are_left_as_they_were():
    before = nn.Module.__getattribute__, Config.__getattribute__
    made()
    assert (nn.Module.__getattribute__, Config.__getattribute__) == before
    assert "__getattribute__" not in vars(nn.Module)
    assert "__getattribute__" not in vars(Config)


def decorated(function):
    @functools.wraps(function)
    def run():
        return function()

    return run


@decorated
def behind_a_decorator():
    return OTHER_SCALE.scale


@functools.lru_cache
def remembered():
    return OTHER_SCALE.scale


class Meter:
    """Keeps to itself what it has."""

    def __init__(self):
        self._scale = 1.0
        self.calls = 0

    @property
    def scale(self):
        return self._scale

    def get(self):
        return self._scale

    def count(self):
        self.calls += 1
        return self.calls


class Scaling(torch.autograd.Function):
    @staticmethod
    def forward(_context, x):
        return x.clone()

    @staticmethod
    def backward(_context, gradient):
        return gradient * OTHER_SCALE.scale


class OtherScale:
    scale = 1.0


METER, OTHER_SCALE, REGISTRY, ARRAY = Meter(), OtherScale, {}, np.ones(2)
QUEUE = deque([1.0])
function = torch.sigmoid


class Reader(nn.Module):
    """Reads by one of many ways what is no attribute of its own."""

    def __init__(self, way):
        super().__init__()
        self.way, self.linear = way, nn.Linear(16, 16)

    def scaled(self):
        return 1.0

    def forward(self, x):
        y = self.linear(x)
        factor = {
            "property": lambda: METER.scale,
            "method": lambda: METER.get(),
            "counter": lambda: METER.count(),
            "decorated": behind_a_decorator,
            "remembered": remembered,
            "missing entry": lambda: REGISTRY.get("scale", 1.0),
            "array": lambda: float(ARRAY[0]),
            "queue": lambda: QUEUE[0],
            "dictionary of attributes": lambda: vars(METER)["_scale"],
            "own method": self.scaled,
        }.get(self.way, lambda: 1.0)()
        if self.way == "autograd":
            y = Scaling.apply(y)
        if self.way == "function of a module":
            y = functional.silu(y)
        return function(y).mean() * factor


def _change(way, monkeypatch):
    match way:
        case "property" | "method" | "dictionary of attributes":
            monkeypatch.setattr(METER, "_scale", 2.0)
        case "decorated" | "autograd":
            monkeypatch.setattr(OtherScale, "scale", 2.0)
        case "remembered":
            monkeypatch.setattr(OtherScale, "scale", 2.0)
            remembered.cache_clear()
        case "missing entry":
            monkeypatch.setitem(REGISTRY, "scale", 2.0)
        case "array":
            ARRAY[0] = 2.0
        case "queue":
            QUEUE[0] = 2.0
        case "own method":
            monkeypatch.setattr(Reader, "scaled", lambda self: 2.0)
        case "function of a module":
            monkeypatch.setattr(functional, "silu", torch.tanh)
        case "function":
            monkeypatch.setitem(globals(), "function", torch.tanh)
        case "forward of a class":
            monkeypatch.setattr(Reader, "forward", lambda self, x: self.linear(x).sum())
        case "forward of a submodule's class":
            monkeypatch.setattr(nn.Linear, "forward", lambda self, x: x)


@pytest.mark.parametrize(
    "way",
    [
        *("property", "method", "decorated", "remembered", "missing entry", "array", "queue"),
        *("dictionary of attributes", "own method", "autograd", "function of a module"),
        *("function", "forward of a class", "forward of a submodule's class"),
    ],
)
def test_other_ways_to_what_changes(monkeypatch, way):
    remembered.cache_clear()
    ARRAY[0] = QUEUE[0] = 1.0
    model = made(Reader(way))
    model(X).backward()
    model(X).backward()
    _change(way, monkeypatch)
    captured_again(model, "when the step was captured")


def test_a_method_of_a_global_object_that_counts():
    with pytest.raises(pgmo.GraphError, match=r"changes Meter\.calls each time"):
        made(Reader("counter"))


def test_the_environment_may_change(monkeypatch):
    class Asks(Reader):
        def forward(self, x):
            return super().forward(x) * float(os.environ.get("PGMO_NO_SUCH", "1"))

    model = made(Asks(""))
    monkeypatch.setenv("PGMO_ANOTHER", "1")  # of others
    model(X).backward()
