import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import pgmo
from pgmo.cards import Card
from pgmo.recompute.apply import RecomputeOptions, _card_budget
from pgmo.recompute.card_budget import CONTEXT, optimizer_needs
from tests.unit.recompute.steps import net


def card(size):
    return Card("a small one", size, size, (8, 0), 1)


def state_of(optimizer, model):
    model(torch.ones(2, 64)).sum().backward()
    optimizer.step()
    tensors = [one for state in optimizer.state.values() for one in state.values()]
    return sum(-(-one.untyped_storage().nbytes() // 512) * 512 for one in tensors)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (torch.optim.SGD, {"lr": 0.1}),
        (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
        (torch.optim.AdamW, {"foreach": True}),
        (torch.optim.AdamW, {"foreach": False, "amsgrad": True}),
        (torch.optim.Adafactor, {}),
        (torch.optim.RMSprop, {"momentum": 0.9}),
        (torch.optim.NAdam, {}),
        (torch.optim.RAdam, {"foreach": False}),
    ],
)
def test_state_is_known_before_it_exists(kind, options):
    model = net()
    optimizer = kind(model.parameters(), **options)
    found = optimizer_needs(optimizer)
    assert not optimizer.state
    assert all(one.grad is None for one in model.parameters())
    assert found.state == state_of(optimizer, model)
    assert optimizer_needs(optimizer).state == found.state  # the same after a step has made it


def test_foreach_steps_allocate_more_than_single_steps():
    model = net()
    at_once = optimizer_needs(torch.optim.AdamW(model.parameters(), foreach=True))
    singly = optimizer_needs(torch.optim.AdamW(model.parameters(), foreach=False))
    assert (
        at_once.transient_bytes
        >= sum(one.nbytes for one in model.parameters())
        > singly.transient_bytes
    )


def test_late_steps_of_an_optimizer_are_measured():
    weight = nn.Parameter(torch.zeros(64, 64))
    needs = optimizer_needs(torch.optim.RAdam([weight], foreach=False))
    # A late step of RAdam makes four tensors at a time.
    assert needs.transient_bytes >= 4 * weight.nbytes


def test_a_step_on_a_card_takes_all_parameters_at_once():
    with FakeTensorMode():
        weights = [nn.Parameter(torch.empty(64, 64, device="cuda")) for _ in range(8)]
    needs = optimizer_needs(torch.optim.Adam(weights))
    assert needs.transient_bytes >= 8 * weights[0].nbytes


def test_step_hooks_of_the_optimizer_do_not_run():
    optimizer = torch.optim.Adam(net().parameters())
    ran = []
    optimizer.register_step_pre_hook(lambda *_: ran.append("before"))
    optimizer.register_step_post_hook(lambda *_: ran.append("after"))
    optimizer_needs(optimizer)
    assert ran == []


def test_gradients_of_weights_that_share_a_storage_count_once():
    """On a CUDA device, the weights of an LSTM share a storage."""
    flat = torch.zeros(4 << 20)
    model = nn.ParameterList(nn.Parameter(flat[at : at + 1024]) for at in range(0, 8192, 1024))
    budget = _card_budget(model, 0, RecomputeOptions(card=card(1 << 30)))
    assert budget.gradients == 8 * 4096


def test_frozen_parameters_have_no_state():
    model = net()
    for one in model[:6].parameters():
        one.requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    assert optimizer_needs(optimizer).state == state_of(optimizer, model)


def test_the_budget_is_what_is_left():
    model, x = net(), torch.randn(4096, 64)
    _, plain = pgmo.recompute(model, x, budget=None)
    optimizer = torch.optim.AdamW(model.parameters())
    needs = optimizer_needs(optimizer)
    size = CONTEXT + plain.resident + needs.state + int(0.85 * plain.default_peak)
    twin, plan = pgmo.recompute(model, x, card=card(int(size / 0.99)), optimizer=optimizer)
    assert plan.peak <= plan.budget <= 0.85 * plain.default_peak
    assert plan.budget > 0.83 * plain.default_peak
    assert "state of the optimizer" in plan.explain()
    for _ in range(2):
        optimizer.zero_grad()
        twin(x).sum().backward()
        optimizer.step()
    assert plan.measured_peak <= plan.budget * 1.001
    _, less = pgmo.recompute(
        model, x, card=card(int(size / 0.99)), optimizer=optimizer, beside="128 KiB"
    )
    assert plan.budget - less.budget == 128 << 10


def test_a_name_finds_a_card_and_none_recomputes_where_all_fits():
    _, plan = pgmo.recompute(net(), torch.randn(64, 64), card="RTX 4090")
    assert not plan.recomputed


def test_without_example_inputs_the_first_call_is_planned():
    model = net()
    twin, plan = pgmo.recompute(model, card="16 GiB", optimizer=torch.optim.SGD(model.parameters()))
    twin(torch.randn(64, 64)).sum().backward()
    assert 14 << 30 < plan.budget < 16 << 30


def test_the_error_for_a_small_card_lists_its_memory():
    model = net()
    with pytest.raises(pgmo.BudgetError, match=r"gradients take 97\.5 KiB") as reported:
        pgmo.recompute(
            model,
            torch.randn(8, 64),
            card=card(CONTEXT + (600 << 10)),
            optimizer=torch.optim.AdamW(model.parameters()),
        )
    assert "parameters, buffers and example inputs 99.5 KiB" in str(reported.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"card": "16 GiB", "budget": 0.5}, "card or a budget"),
        ({"optimizer": torch.optim.SGD([nn.Parameter(torch.ones(1))])}, "only with card="),
        ({"beside": "1 GiB"}, "only with card="),
        ({"card": "no such card"}, "no such card"),
        ({"card": "16 GiB", "optimizer": 3}, "torch.optim.Optimizer"),
    ],
)
def test_options_that_do_not_go_together(options, words):
    with pytest.raises(pgmo.errors.OptionError, match=words):
        pgmo.recompute(net(), torch.randn(8, 64), **options)


def test_an_optimizer_that_needs_a_closure_is_refused():
    model = net()
    with pytest.raises(pgmo.errors.OptionError, match="LBFGS"):
        optimizer_needs(torch.optim.LBFGS(model.parameters()))
