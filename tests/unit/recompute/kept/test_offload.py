"""Steps whose values wait on the host, written and read: the same bits, plan and transfers."""

import copy

import pytest

torch = pytest.importorskip("torch")

import pgmo  # noqa: E402
from pgmo.recompute.runtime import dispatch  # noqa: E402
from tests.unit.recompute.runtime.test_offload import (  # noqa: E402
    ROWS,
    Layers,
    outcome,
    same,
)


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PGMO_CACHE_DIR", str(tmp_path / "cache"))


def made(kind=Layers):
    torch.manual_seed(0)
    return kind()


def planned(net, **options):
    return pgmo.recompute(net, ROWS, "min", keep=True, measure=False, **options)


def keep(kind=Layers, link=48e9, **options):
    """Runs steps until one is written; its plan."""
    model, plan = planned(made(kind), offload=link, **options)
    for step in range(3):
        outcome(model, ROWS, step)
    return plan


def test_what_was_written_is_read_and_has_the_same_bits(monkeypatch):
    first = keep()
    assert first.offloaded

    def refuse(*_):
        raise AssertionError("captured again")

    monkeypatch.setattr(dispatch, "CapturedCall", type("Refusing", (), {"__init__": refuse}))
    plain = made()
    model, plan = planned(copy.deepcopy(plain), offload="pcie5")
    assert plan.was_kept
    for step in range(3):
        assert same(outcome(plain, ROWS, step), outcome(model, ROWS, step))
    assert (plan.offloaded, plan.host_bytes) == (first.offloaded, first.host_bytes)
    assert (plan.peak, plan.overhead) == (first.peak, first.overhead)
    assert plan.explain() == first.explain()


def test_calls_that_wait_have_places_of_their_own():
    keep()
    plain = made()
    model, plan = planned(copy.deepcopy(plain), offload=48e9)
    assert plan.was_kept

    def both(one):
        one.zero_grad()
        torch.manual_seed(0)
        losses = [one(scale * ROWS) for scale in (1.0, 2.0)]
        for loss in losses:
            loss.backward()
        return [*map(torch.detach, losses), *(it.grad for it in one.parameters())]

    assert same(both(model), both(plain))


@pytest.mark.parametrize("other", [None, 24e9])
def test_another_link_is_another_file(other):
    keep()
    assert not planned(made(), offload=other)[1].was_kept
    assert planned(made(), offload=48e9)[1].was_kept


class Two(Layers):
    def forward(self, x):
        return super().forward(x), self.body[0](x).tanh().exp().sum(1)


def test_gradients_of_other_results_are_right():
    def step(one, both):
        one.zero_grad()
        torch.manual_seed(1)
        loss, other = one(ROWS)
        (loss + other.mean() if both else loss).backward()
        return [loss.detach(), *(it.grad for it in one.parameters())]

    model, _ = planned(made(Two), offload=48e9)
    for _ in range(3):
        step(model, both=False)
    plain = made(Two)
    model, plan = planned(copy.deepcopy(plain), offload=48e9)
    assert plan.was_kept
    assert plan.offloaded
    assert same(step(model, both=False), step(plain, both=False))
    for ours, theirs in zip(step(model, both=True), step(plain, both=True), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-6)
