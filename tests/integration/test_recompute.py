"""Networks that recompute give the bits of those that do not, at the peak that was predicted."""

import copy

import pytest

torch = pytest.importorskip("torch")

import pgmo  # noqa: E402
from pgmo.allocator.statistics import Phase  # noqa: E402
from pgmo.recompute.planning import PLANNERS, plan_choice  # noqa: E402
from tests.integration.networks import MAKERS, make  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def trained(model, batch, steps=2):
    """Losses, gradients of the last step, parameters and buffers after some steps."""
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


@pytest.mark.parametrize("planner", [*PLANNERS, "search"])
@pytest.mark.parametrize("name", MAKERS)
def test_the_same_bits_at_the_predicted_peak(name, planner):
    plain, batch = make(name)
    model, plan = pgmo.recompute(
        copy.deepcopy(plain),
        batch,
        "min",
        planner=quick if planner == "search" else planner,
    )
    assert plan.peak < plan.default_peak
    assert plan.recomputed
    assert_same(trained(model, batch), trained(plain, batch))
    assert plan.measured_peak == pytest.approx(plan.peak, rel=0.02)


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


def test_what_optimize_packs_is_the_recomputed_schedule():
    plain, batch = make("unet")
    model, plan = pgmo.recompute(plain, batch, "min", planner=quick)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = model(*batch)  # the first step, which is measured operator by operator
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
