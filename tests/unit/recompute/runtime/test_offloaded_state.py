"""Tests of optimizer state that waits on the host between steps, with the same bits."""

import copy

import pytest
import torch

import pgmo
from pgmo.errors import OptionError
from pgmo.recompute.runtime.offload import offloaded_state
from pgmo.recompute.runtime.offload.offloaded_state import OffloadedState
from tests.unit.recompute.steps import card, net


def train(model, optimizer, steps=3, batch=512):
    torch.manual_seed(1)
    for _ in range(steps):
        model(torch.randn(batch, 64)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def same(model, other):
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    return all(torch.equal(one, two) for one, two in pairs)


@pytest.mark.parametrize("options", [{}, {"foreach": False, "amsgrad": True}])
def test_training_goes_on_with_the_same_bits(options):
    model, other = net(), net()
    plain = torch.optim.AdamW(model.parameters(), **options)
    ours = torch.optim.AdamW(other.parameters(), **options)
    away = OffloadedState(ours)
    train(model, plain)
    train(other, ours)
    assert same(model, other)
    states = [one for state in plain.state.values() for one in state.values() if one.dim()]
    assert away.size == sum(one.nbytes for one in states)
    away.end()
    train(model, plain)
    train(other, ours)
    assert same(model, other)
    assert away.size == 0


def test_checkpoints_are_saved_and_loaded_while_the_state_is_on_the_host():
    model, other = net(), net()
    optimizer, again = (torch.optim.AdamW(one.parameters()) for one in (model, other))
    away = [OffloadedState(one) for one in (optimizer, again)]
    train(model, optimizer)
    train(other, again, steps=1)
    assert away[1].size > 0
    saved = copy.deepcopy([model.state_dict(), optimizer.state_dict()])
    other.load_state_dict(saved[0])
    again.load_state_dict(saved[1])
    train(model, optimizer)
    train(other, again)
    assert same(model, other)
    assert away[0].size == away[1].size > 0


def test_a_loaded_state_is_sent_to_the_host_at_once():
    model, other = net(), net()
    optimizer, again = (torch.optim.AdamW(one.parameters()) for one in (model, other))
    train(model, optimizer)
    saved = copy.deepcopy([model.state_dict(), optimizer.state_dict()])
    away = OffloadedState(again)
    train(other, again, steps=2)
    size = away.size
    again.state.clear()
    other.load_state_dict(saved[0])
    again.load_state_dict(saved[1])
    assert away.size == size > 0
    entries = [(id(state), key) for state, key, *_ in away._away]
    assert entries == [
        (id(state), key) for state in again.state.values() for key in ("exp_avg", "exp_avg_sq")
    ]
    train(model, optimizer)
    train(other, again)
    assert same(model, other)


def test_an_interrupted_copy_loses_nothing():
    model, other = net(), net()
    optimizer, ours = (torch.optim.AdamW(one.parameters()) for one in (model, other))
    away = OffloadedState(ours)
    train(model, optimizer, steps=1)
    train(other, ours, steps=1)

    class Interrupting(dict):
        def __setitem__(self, key, value):
            super().__setitem__(key, value)
            if key == "exp_avg_sq":
                raise KeyboardInterrupt

    away.fetch()
    first = next(iter(ours.state))
    ours.state[first] = Interrupting(ours.state[first])
    with pytest.raises(KeyboardInterrupt):
        away.send(ours)
    entry = away._away[-1]
    assert entry[0][entry[1]] is entry[2]  # the moved tensor is recorded
    ours.state[first] = dict(ours.state[first])
    away._away = [(ours.state[first], key, host, device) for _, key, host, device in away._away]
    train(model, optimizer)
    train(other, ours)
    assert same(model, other)


def test_the_state_is_offloaded_only_if_the_step_does_not_fit_beside_it():
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    batch = torch.randn(512, 64)
    parameters = sum(one.nbytes for one in model.parameters())
    _, least = pgmo.recompute(net(), batch, "min", offload="pcie4")
    options = {"optimizer": optimizer, "offload": "pcie4"}
    roomy_bytes = least.resident + least.peak + (2 * parameters + (64 << 10))
    _, roomy = pgmo.recompute(model, batch, card=card(4 * roomy_bytes), state=True, **options)
    assert roomy.state_bytes == 0
    small = card(least.resident + least.peak + parameters)
    with pytest.raises(pgmo.BudgetError):
        pgmo.recompute(model, batch, card=small, **options)
    ours, plan = pgmo.recompute(model, batch, card=small, state=True, **options)
    assert plan.state_bytes >= 2 * parameters
    assert plan.overhead == plan.schedule.overhead + plan.state_share > plan.schedule.overhead
    assert "The optimizer's state" in plan.explain()
    assert plan.as_dict()["state_bytes"] == plan.state_bytes
    other = net()
    train(ours, optimizer)
    train(other, torch.optim.AdamW(other.parameters(), foreach=False))
    assert same(ours, other)
    assert optimizer in offloaded_state._offloaded
    pgmo.recompute(model, batch, card=card(4 * roomy_bytes), state=True, **options)
    assert optimizer not in offloaded_state._offloaded  # it stays on the device


@pytest.mark.slow  # searches for two largest batches
def test_a_larger_batch_fits_while_the_state_is_on_the_host():
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    options = {"card": card(1200 << 10), "optimizer": optimizer, "offload": "pcie4"}

    def inputs(batch):
        return torch.randn(16 * batch, 64)

    batch, *_ = pgmo.recompute.largest(model, inputs, **options)
    larger, _, plan = pgmo.recompute.largest(model, inputs, state=True, **options)
    assert larger > batch
    assert plan.state_bytes > 0


def test_options_that_state_needs():
    with pytest.raises(OptionError, match="state=True needs card=, optimizer=, offload="):
        pgmo.recompute(net(), torch.randn(8, 64), "min", offload="pcie4", state=True)
