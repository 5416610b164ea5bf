"""Tests of values that wait on the host: the same bits, the planned peak, and freed memory."""

import copy
import gc
import random

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import pgmo  # noqa: E402
from pgmo.recompute.planners.evaluator import Choice  # noqa: E402
from pgmo.recompute.planners.offload.transfers import Transfers  # noqa: E402
from pgmo.recompute.planners.planning import plan_choice  # noqa: E402
from pgmo.recompute.planners.schedule import is_at_home, simulate  # noqa: E402
from pgmo.recompute.runtime.offload import host as hosts  # noqa: E402
from pgmo.recompute.runtime.offload.pinned import PinnedBufferPool  # noqa: E402
from tests.unit.recompute.runtime.networks import Skips  # noqa: E402
from tests.unit.recompute.steps import same, step  # noqa: E402


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        parts = [it for _ in range(4) for it in (nn.Linear(32, 32), nn.Tanh(), nn.Dropout(0.1))]
        self.body = nn.Sequential(*parts)

    def forward(self, x):
        return self.body(x).square().mean()


IMAGES, ROWS = torch.linspace(-1, 1, 2 * 3 * 64).reshape(2, 3, 8, 8), torch.ones(32, 16, 32)


def dice(seed, share, needed=lambda _graph, reruns, _away: reruns):
    """Return a planner with random offloads and reruns, as far as `needed` keeps them."""

    def plan(graph, _budget):
        die = random.Random(seed)
        transfers = Transfers.of(graph, 10.0 ** die.randint(6, 12))
        able = [one for one in range(graph.forward) if transfers.may(one)]
        away = frozenset(one for one in able if die.random() < 0.6)
        reruns = tuple(
            (moment, one)
            for moment in range(len(graph.operations))
            for one in range(min(moment, graph.forward))
            if is_at_home(graph, moment, one) and die.random() < share
            if (moment >= transfers.until[one] if one in away else not graph.operations[one].pinned)
        )
        reruns = needed(graph, reruns, away)
        schedule = simulate(graph, (), reruns, away, transfers)
        assert schedule.offloaded
        return Choice(schedule.recomputed, schedule.peak, 0.0, "dice", reruns, away, transfers)

    return plan


@pytest.mark.parametrize("seed", range(6))
def test_whatever_waits_on_the_host_the_bits_are_the_same(seed):
    torch.manual_seed(0)
    plain = Skips(turned=True)
    model, plan = pgmo.recompute(
        copy.deepcopy(plain), IMAGES, budget="1 MiB", planner=dice(seed, 0.1), measure=False
    )
    for seed in range(2):
        assert same(step(plain, IMAGES, seed=seed), step(model, IMAGES, seed=seed))
    assert plan.host_bytes > 0


def test_a_budget_below_the_least_peak_is_met_as_predicted():
    torch.manual_seed(0)
    plain = Layers()
    _, without = pgmo.recompute(copy.deepcopy(plain), ROWS, budget="min")
    budget = int(0.9 * without.peak)
    with pytest.raises(pgmo.BudgetError):
        pgmo.recompute(copy.deepcopy(plain), ROWS, budget=budget)
    model, plan = pgmo.recompute(copy.deepcopy(plain), ROWS, budget=budget, offload="pcie5")
    assert same(step(plain, ROWS), step(model, ROWS))
    assert plan.peak <= budget
    assert plan.measured_peak == pytest.approx(plan.peak, abs=8)
    assert plan.offloaded
    values = [plan.graph.operations[one].writes for one in plan.offloaded]
    assert plan.host_bytes <= sum(plan.graph.values[it].size for some in values for it in some)
    said = plan.as_dict()
    assert said["host_bytes"] == plan.host_bytes
    assert {row["operation"] for row in said["offloaded"]} == plan.offloaded
    assert f"The results of {len(plan.offloaded)} operations are offloaded" in plan.explain()


@pytest.fixture
def offloading():
    torch.manual_seed(0)
    plain = Layers()
    model, _ = pgmo.recompute(
        copy.deepcopy(plain), ROWS, budget="min", offload="pcie5", measure=False
    )
    return plain, model


def test_calls_that_wait_for_their_backward_pass_have_places_of_their_own(offloading):
    plain, model = offloading

    def both(one):
        one.zero_grad()
        torch.manual_seed(0)
        losses = [one(scale * ROWS) for scale in (1.0, 2.0, 3.0)]
        for loss in losses:
            loss.backward()
        return [*map(torch.detach, losses), *(it.grad for it in one.parameters())]

    assert same(both(model), both(plain))


def test_a_backward_pass_may_run_twice_with_other_calls_between():
    torch.manual_seed(0)
    plain = Layers()
    model, _ = pgmo.recompute(
        copy.deepcopy(plain), ROWS, budget="min", offload="pcie5", measure=False
    )

    def twice(one):
        one.zero_grad()
        torch.manual_seed(0)
        loss = one(ROWS)
        loss.backward(retain_graph=True)
        other = one(2 * ROWS)
        loss.backward()
        other.backward()
        return [it.grad for it in one.parameters()]

    assert same(twice(model), twice(plain))


def test_memory_is_lent_again_whether_or_not_a_backward_pass_comes(offloading, monkeypatch):
    _, model = offloading
    lend, places = PinnedBufferPool.lend, []

    def noted(self):
        lent = lend(self)
        places.append(lent.data_ptr())
        return lent

    monkeypatch.setattr(PinnedBufferPool, "lend", noted)
    for backward in 3 * (True, False):
        loss = model(ROWS)
        if backward:
            loss.backward()
        del loss
        gc.collect()
    assert len(places) == 6
    assert len(set(places)) <= 2


def test_a_lent_tensor_is_lent_once():
    pool = PinnedBufferPool(64, False, lambda: None)
    first = pool.lend()
    view = first[8:16].view(torch.int32)
    del first
    assert pool.lend().data_ptr() != view.data_ptr() - 8
    address = view.data_ptr() - 8
    del view
    assert address in (pool.lend().data_ptr(), pool.lend().data_ptr())


def test_memory_that_cannot_be_had_is_an_error_with_advice():
    with pytest.raises(pgmo.BudgetError, match=r"takes 4096 PiB of host memory.*no offload"):
        PinnedBufferPool(1 << 62, False, lambda: None).lend()


def test_a_value_whose_layout_is_not_the_captured_one_is_laid_out_as_captured():
    host, value = hosts.HostArenas(), torch.randn(2, 3, 4, 5)
    place = host.place("value", value.nbytes)
    arena = host.lend(torch.device("cpu"))
    stride = list(value.stride())
    host.send(arena, value.to(memory_format=torch.channels_last), place, stride)
    looks = (list(value.shape), stride, value.dtype, value.device)
    assert torch.equal(host.fetch(arena, place, *looks), value)


def test_an_output_without_gradient_leaves_it_as_it_is():
    class Two(Layers):
        def forward(self, x):
            return super().forward(x), self.body[0](x).tanh().exp().sum(1)

    torch.manual_seed(0)
    plain = Two()
    model, plan = pgmo.recompute(
        copy.deepcopy(plain), ROWS, budget=0.5, offload="pcie5", measure=False
    )
    for _ in range(3):
        assert same(step(model, ROWS), step(plain, ROWS))
    assert plan.offloaded


def test_an_error_on_the_way_leaves_the_next_step_alone(offloading, monkeypatch):
    plain, model = offloading
    fetch = hosts.HostArenas.arrived

    def failing(self, *arguments):
        raise RuntimeError("somebody stumbles")

    monkeypatch.setattr(hosts.HostArenas, "arrived", failing)
    torch.manual_seed(0)
    made, _ = pgmo.recompute(
        copy.deepcopy(plain), ROWS, budget="min", offload="pcie5", measure=False
    )
    with pytest.raises(RuntimeError, match="stumbles"):
        step(made, ROWS)
    monkeypatch.setattr(hosts.HostArenas, "arrived", fetch)
    assert same(step(model, ROWS), step(plain, ROWS))


def test_other_shapes_are_offloaded_too():
    torch.manual_seed(0)
    plain = Layers()
    model, plan = pgmo.recompute(
        copy.deepcopy(plain), ROWS, budget="min", offload="pcie5", measure=False
    )
    for rows in (ROWS, ROWS[:, :7], ROWS.repeat(2, 1, 1)):
        assert same(step(plain, rows), step(model, rows))
    assert plan.offloaded


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"planner": plan_choice}, "only pgmo's own search offloads"),
        ({"offload": "usb"}, "give the name of a link"),
    ],
)
def test_what_does_not_go_together_is_said(options, said):
    with pytest.raises(pgmo.errors.OptionError, match=said):
        pgmo.recompute(Layers(), ROWS, **{"offload": "pcie4", **options})
