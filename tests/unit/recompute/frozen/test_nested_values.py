"""Values in classes, objects, lists and closures are noticed when they are others now."""

import logging

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tests.unit.recompute.frozen.recapture import X, captured_again, made  # noqa: E402

SCALE = 1.0


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
    captured_again(model, r"Defaults\.scale is 2\.0 and was 1\.0.*test_nested_values")
    monkeypatch.undo()
    monkeypatch.setattr(owner(plain), "unread", 2.0, raising=False)
    model(X).backward()


def test_attributes_of_a_class_and_of_one_that_inherits_from_it():
    plain = Scaled("list")
    model = made(plain)
    model(X).backward()
    plain.configs["all"][1].own = 2.0
    captured_again(model, r"Special\.own is 2\.0 and was 1\.0.*test_nested_values")


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
