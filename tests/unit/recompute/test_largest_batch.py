from contextlib import suppress

import pytest
import torch
from torch import nn

import pgmo
from pgmo.recompute.compiled import model
from tests.unit.recompute.steps import card, proposed


class Job(nn.Module):
    def __init__(self, layers=2, width=32):
        super().__init__()
        parts = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.Tanh())]
        self.body = nn.Sequential(*parts)

    def forward(self, x):
        return self.body(x).square().mean()


def batch_of(samples):
    return torch.ones(samples, 64, 32)


def fits(model, samples, **options):
    with suppress(pgmo.BudgetError):
        return pgmo.recompute(model, batch_of(samples), **options)
    return None


def test_the_next_batch_does_not_fit_and_this_one_trains_as_the_plain_model():
    torch.manual_seed(0)
    model = Job(layers=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    options = {"card": card(250 << 10), "optimizer": optimizer, "planner": proposed}
    batch, ours, plan = pgmo.recompute.largest(model, batch_of, **options)
    assert batch > 2
    assert not fits(model, batch + 1, **options)
    plain = model(batch_of(batch))
    plain.backward()
    expected = [one.grad.clone() for one in model.parameters()]
    model.zero_grad()
    loss = ours(batch_of(batch))
    loss.backward()
    assert torch.equal(loss, plain)
    assert all(map(torch.equal, expected, (one.grad for one in model.parameters())))
    assert plan.default_peak > plan.card.left >= plan.peak
    assert plan.measured_peak <= plan.card.left


def test_a_smallest_batch_that_does_not_fit_is_an_error():
    with pytest.raises(pgmo.BudgetError, match=r"nothing is within"):
        pgmo.recompute.largest(Job(), batch_of, start=64, card=card(700 << 10), planner=proposed)


def test_invalid_arguments_are_refused():
    with pytest.raises(
        pgmo.errors.OptionError, match=r"start is 0; a batch has one sample or more"
    ):
        pgmo.recompute.largest(Job(), batch_of, start=0, card="16GiB")
    with pytest.raises(pgmo.errors.OptionError, match=r'give a card, such as card="RTX 4090"'):
        pgmo.recompute.largest(Job(), batch_of)
    with pytest.raises(pgmo.errors.OptionError, match=r"a card or a budget, not both"):
        pgmo.recompute.largest(Job(), batch_of, card="16GiB", budget="1 GiB")


def test_a_forward_pass_that_does_not_fit_even_without_gradients_asks_for_a_smaller_batch(
    monkeypatch,
):
    def out_of_memory(*_arguments):
        raise torch.OutOfMemoryError("Tried to allocate 14.65 GiB")

    monkeypatch.setattr(model, "discover", out_of_memory)
    with pytest.raises(pgmo.BudgetError, match=r"(?s)Give a smaller batch.*14.65 GiB"):
        pgmo.recompute(Job(), batch_of(2))
