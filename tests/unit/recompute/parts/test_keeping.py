"""Models in parts on disk: nothing is captured or planned again, and what has changed is."""

import copy

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import pgmo  # noqa: E402
from pgmo.recompute.parts.divided import DividedCall  # noqa: E402
from pgmo.recompute.runtime import dispatch  # noqa: E402
from tests.unit.recompute.parts import models  # noqa: E402
from tests.unit.recompute.parts.models import batch, same, step  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:the forward pass is no single graph")


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PGMO_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def refused(monkeypatch):
    """Called from when on nothing may be captured or planned."""

    def begin():
        def refuse(*_):
            raise AssertionError("captured or planned again")

        monkeypatch.setattr(dispatch, "CapturedCall", type("Refusing", (), {"__init__": refuse}))
        monkeypatch.setattr(DividedCall, "_plan", refuse)

    return begin


def made(kind, change=lambda plain: None, **options):
    torch.manual_seed(0)
    plain = kind()
    change(plain)
    options = options or {"planner": "min-cut", "measure": False}
    model, plan = pgmo.recompute(copy.deepcopy(plain), batch(0), keep=True, **options)
    return plain, model, plan


def keep(kind, **options):
    _, model, plan = made(kind, **options)
    assert not plan.was_kept
    for number in range(4):
        step(model, batch(number), number)
    return plan


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (models.Blocks, {"planner": "min-cut"}),
        (models.Blocks, {"offload": 1e12, "measure": False}),
        (models.Shared, {"planner": "min-cut", "measure": False}),
        (models.Hidden, {"budget": "min"}),
    ],
)
def test_a_second_process_captures_and_plans_nothing(kind, options, refused):
    first = keep(kind, **options)
    refused()
    plain, model, plan = made(kind, **options)
    assert plan.was_kept
    assert plan.parts == first.parts
    for number in range(3):
        assert same(step(model, batch(number), number), step(plain, batch(number), number))
    assert (plan.peak, plan.recomputed) == (first.peak, first.recomputed)
    assert plan.offloaded == first.offloaded
    assert bool(plan.offloaded) == ("offload" in options)
    assert plan.measured_peak == first.measured_peak
    assert (first.measured_peak is None) == (not options.get("measure", True))
    assert plan.explain() == first.explain()
    assert plan.curve(points=2, time_limit=0.2).choices[-1].overhead == 0


class Scaled(models.Blocks):
    scale = 1.0

    def between(self, x):
        return self.scale * models.opaque(x)


class Factor(models.Block):
    factor = 1.0

    def forward(self, x):
        return self.factor * super().forward(x)


class Factors(models.Blocks):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Factor() for _ in range(3))


def test_what_code_between_parts_has_read_is_compared():
    keep(Scaled)
    plain, model, plan = made(Scaled, lambda plain: setattr(plain, "scale", 0.5))
    assert not plan.was_kept
    assert same(step(model, batch(0), 0), step(plain, batch(0), 0))
    assert made(Scaled)[2].was_kept


def test_a_part_that_has_read_something_else_is_captured_for_what_was_decided():
    first = keep(Factors)
    plain, model, plan = made(Factors, lambda plain: setattr(plain.blocks[1], "factor", 0.5))
    assert plan.was_kept
    for number in range(3):
        assert same(step(model, batch(number), number), step(plain, batch(number), number))
    assert plan.recomputed == first.recomputed


@pytest.mark.parametrize("options", [{"budget": 0.9}, {"planner": "chen"}, {"whole": True}])
def test_another_plan_is_another_file(options):
    usual = {"planner": "min-cut", "measure": False}
    keep(models.Blocks, **usual)
    if "whole" in options:
        with pytest.raises(pgmo.errors.GraphError, match="cannot be captured"):
            made(models.Blocks, **{**usual, **options})
    else:
        assert not made(models.Blocks, **{**usual, **options})[2].was_kept


class Chooses(models.Blocks):
    """The labels say which blocks run."""

    def forward(self, x, labels):
        for block in self.blocks if int(labels[0]) == 2 else self.blocks[:2]:
            x = self.between(block(x))
        return nn.functional.cross_entropy(self.head(x), labels)


@pytest.mark.slow
def test_ways_that_come_later_are_planned_when_they_come():
    keep(Chooses)
    plain, model, plan = made(Chooses)
    assert plan.was_kept
    found = []
    for number in range(3):
        x, labels = batch(number)
        labels[0] = 2 if number else 0
        ours, theirs = step(model, (x, labels), number), step(plain, (x, labels), number)
        assert same(ours, theirs)
        found.append(len(plan.parts))
    assert (found[0], found[-1]) == (2, 3)


def test_a_file_that_was_cut_off_is_written_anew(tmp_path):
    keep(models.Blocks)
    (path,) = (tmp_path / "cache" / "steps").glob("*.step")
    path.write_bytes(path.read_bytes()[:-100])
    keep(models.Blocks)
    assert made(models.Blocks)[2].was_kept


def test_what_cannot_be_found_again_is_said(tmp_path):
    names = {"opaque": models.opaque}
    exec("def between(self, x):\n    return opaque(x)", names)  # which is in no file
    other = type("Other", (models.Blocks,), {"between": names["between"], "__module__": __name__})
    _, model, _ = made(other)
    with pytest.warns(UserWarning, match="not kept for other processes"):
        for number in range(4):
            step(model, batch(number), number)
    assert not list((tmp_path / "cache").glob("steps/*"))
