"""Tests that recomputing networks have the bits of plain ones, at the predicted peak."""

import copy

import pytest

torch = pytest.importorskip("torch")

import pgmo  # noqa: E402
from pgmo.allocator.session.statistics import Phase  # noqa: E402
from pgmo.recompute.compiled.graph import CompiledGraph  # noqa: E402
from pgmo.recompute.planners.planning import plan_choice, propose  # noqa: E402
from pgmo.recompute.planners.schedule import simulate  # noqa: E402
from pgmo.recompute.runtime.offload.host import HostArenas  # noqa: E402
from pgmo.recompute.runtime.rewrite import split  # noqa: E402
from tests.integration.networks import MAKERS, UNSEEN, make  # noqa: E402


def trained(model, batch, steps=2):
    """Return the losses, the last gradients, the parameters and the buffers of some steps."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(steps):
        torch.manual_seed(step)
        optimizer.zero_grad()
        loss = model(*batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [*losses, *(one.grad for one in model.parameters()), *model.state_dict().values()]


def assert_same(one, other):
    assert len(one) == len(other)
    for left, right in zip(one, other, strict=True):
        assert torch.equal(left, right)


def quick(graph, budget):
    return plan_choice(graph, budget, evaluations=2000)


def halves_run(captured, choice, given):
    """Run both halves of a schedule, and return the results and gradients."""
    forward, backward = split(captured, simulate(captured.graph, choice), HostArenas())
    torch.manual_seed(0)
    names = [node.name for node in forward.graph.find_nodes(op="placeholder")]
    with torch.no_grad():
        made = forward(*(given[name] for name in names))
        gradients = backward(*made[captured.outputs :], torch.ones(()))
    return [one for one in (*made[: captured.outputs], *gradients) if one is not None]


def graph_inputs(model, batch):
    """Return the inputs of the captured graph: parameters, copies of buffers, and the batch."""
    found = []
    call = CompiledGraph.__call__

    def noting(graph, *arguments):
        found.extend(one if one.requires_grad else one.clone() for one in arguments)
        return call(graph, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CompiledGraph, "__call__", noting)
        torch.manual_seed(0)
        model(*batch)
    return found


@pytest.mark.parametrize("name", MAKERS)
def test_the_same_bits_at_the_predicted_peak(name):
    plain, batch = make(name)
    model, plan = pgmo.recompute(copy.deepcopy(plain), batch, "min", planner=quick)
    assert plan.peak < plan.default_peak
    assert plan.recomputed
    assert_same(trained(model, batch), trained(plain, batch))
    assert plan.measured_peak == pytest.approx(plan.peak, rel=0.02)


@pytest.mark.parametrize("name", MAKERS)
def test_the_same_bits_whatever_the_planner_drops(name):
    plain, batch = make(name)
    model, plan = pgmo.recompute(plain, batch, None)
    captured = plan.captured
    names = [node.name for node in captured.joint.graph.find_nodes(op="placeholder")]
    tensors = graph_inputs(model, batch)
    given = dict(zip(names, tensors, strict=False))  # without the loss's gradient
    default = halves_run(captured, (), given)
    torch.manual_seed(0)
    plain(*batch).backward()
    assert_same(default[captured.outputs :], [one.grad for one in tensors if one.grad is not None])
    best = min(propose(plan.graph), key=lambda one: one.peak).recomputed
    assert_same(halves_run(captured, best, given), default)
    assert_same(halves_run(captured, frozenset(plan.graph.candidates()), given), default)


@pytest.mark.parametrize("share", [0.85, 0.7])
def test_a_budget_in_bytes_is_kept_by_real_steps(share):
    plain, batch = make("unet")
    _, default = pgmo.recompute(plain, batch, None)
    budget = int(share * default.peak)
    model, plan = pgmo.recompute(plain, batch, budget, planner=quick)
    trained(model, batch, steps=1)
    assert plan.peak <= budget
    assert plan.measured_peak <= 1.02 * budget
    assert 0 < plan.overhead < 1


def test_optimize_plans_the_recomputed_schedule():
    plain, batch = make("unet")
    model, plan = pgmo.recompute(plain, batch, "min", planner=quick)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = model(*batch)  # the first step is measured
    loss.backward()
    with pgmo.optimize(device="cpu") as session:
        for _ in range(6):
            with session.iteration():
                optimizer.zero_grad()
                model(*batch).backward()
                optimizer.step()
    last = session.history[-1]
    assert last.phase is Phase.REPLAY
    assert last.hits >= 0.99 * last.requests
    assert session.plan.max_load == pytest.approx(plan.peak, rel=0.05)
    assert session.plan.arena <= 1.05 * plan.peak


@pytest.mark.parametrize("name", UNSEEN)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_networks_that_nothing_was_tuned_on_keep_their_bits(name, seed):
    torch.manual_seed(seed)
    plain, (inputs, _) = UNSEEN[name](), UNSEEN[name].batch(4)
    other = copy.deepcopy(plain)
    model, _ = pgmo.recompute(other, inputs, "min", planner=quick, measure=False)
    found = []
    for one in (plain, model):
        optimizer = torch.optim.AdamW(one.parameters())
        for step in range(3):
            torch.manual_seed(step)
            optimizer.zero_grad()
            loss = one(inputs).square().mean()
            loss.backward()
            optimizer.step()
            found.append([loss.detach(), *(value.clone() for value in one.state_dict().values())])
    for left, right in zip(found[:3], found[3:], strict=True):
        assert_same(left, right)
