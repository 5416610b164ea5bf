"""Tests of outputs that are not differentiated, for which no gradient is made."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

import pgmo
from pgmo.recompute.capture.memory_use.meter import meter
from tests.unit.recompute.steps import proposed, same

X = torch.linspace(-1, 1, 32 * 64).reshape(32, 64)
Y = torch.arange(32)


class Heads(nn.Module):
    """Two heads over a body with a dropout, which must not run twice."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.1))
        self.a = nn.Sequential(nn.Linear(64, 64), nn.Sigmoid(), nn.Linear(64, 64))
        self.b = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64))

    def forward(self, x):
        h = self.body(x)
        return self.a(h), self.b(h)


class Classifier(nn.Module):
    """A model that returns its loss and its logits."""

    def __init__(self, both=True):
        super().__init__()
        self.both, self.body, self.head = both, nn.Linear(64, 64), nn.Linear(64, 4096, bias=False)

    def forward(self, x, y):
        logits = self.head(functional.gelu(self.body(x)))
        loss = functional.cross_entropy(logits, y)
        return (loss, logits) if self.both else loss


class Two(torch.autograd.Function):
    """Two products, whose backward pass gets zeros for a product that is not differentiated."""

    @staticmethod
    def forward(ctx, x, v, w):
        ctx.save_for_backward(x, v, w)
        return x * v, x * w

    @staticmethod
    def backward(ctx, first, second):
        x, v, w = ctx.saved_tensors
        return first * v + second * w, (first * x).sum(0), (second * x).sum(0)


class Ready(torch.autograd.Function):
    """A sum that saves its gradient in the forward pass and ignores the given one."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(torch.ones_like(x))
        return x.sum()

    @staticmethod
    def backward(ctx, _gradient):
        return ctx.saved_tensors[0]


class Custom(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(64, 64), nn.Linear(64, 64)
        self.v, self.w = nn.Parameter(torch.ones(64)), nn.Parameter(torch.ones(64))

    def forward(self, x):
        y, z = Two.apply(self.first(x), self.v, self.w)
        return y.square().mean(), z.square().mean(), Ready.apply(self.last(x))


def trained(model, losses, *batch):
    """Return the losses and gradients of steps, and the parameters after them.

    Weight decay changes parameters whose gradients are zeros, but none without gradients.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)
    found = []
    for step, loss_of in enumerate(losses):
        torch.manual_seed(step)
        optimizer.zero_grad()
        loss = loss_of(model(*batch))
        loss.backward()
        found += [loss.detach(), *(one.grad for one in model.parameters())]
        optimizer.step()
    return [*found, *(one.detach().clone() for one in model.parameters())]


def first(results):
    return results[0].square().mean()


def second(results):
    return results[1].square().mean()


def both(results):
    return first(results) + second(results)


@pytest.mark.parametrize(
    "losses",
    [
        (first,) * 3,
        (both, first, second, both),
        (second, first, first, both, first),
    ],
    ids=["one", "in turn", "more and more"],
)
@pytest.mark.parametrize("budget", ["min", 1.0])
def test_a_head_without_gradient_keeps_none(losses, budget):
    torch.manual_seed(0)
    plain = Heads()
    other = copy.deepcopy(plain)
    model, _ = pgmo.recompute(other, X, budget, measure=False)
    assert same(trained(plain, losses, X), trained(model, losses, X))


@pytest.mark.parametrize("index", [0, 1, 2])
def test_custom_functions_are_called_as_by_autograd(index):
    torch.manual_seed(0)
    plain = Custom()
    model, _ = pgmo.recompute(copy.deepcopy(plain), X, 1.0, measure=False)
    losses = (lambda results: results[index],) * 2
    assert same(trained(plain, losses, X), trained(model, losses, X))


class Scaled(torch.autograd.Function):
    """A custom function of one tensor."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, None


class Siblings(nn.Module):
    """Two custom functions of one tensor and a product with it, all of which are results."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 64))

    def forward(self, x):
        h = self.weight * 1.5
        return Scaled.apply(h, 2.0), Scaled.apply(h, 3.0), h * x


@pytest.mark.parametrize("index", [0, 1, 2])
def test_custom_functions_of_one_tensor_have_gradients_of_their_own(index):
    plain = Siblings()
    model, _ = pgmo.recompute(copy.deepcopy(plain), X, 1.0, measure=False)
    losses = (lambda results: results[index].square().mean(),) * 2
    assert same(trained(plain, losses, X), trained(model, losses, X))


def test_logits_beside_a_loss_get_no_gradient():
    logits = 32 * 4096 * 4
    alone = pgmo.recompute(Classifier(both=False), (X, Y), 1.0)[1]
    model, plan = pgmo.recompute(Classifier(), (X, Y), 1.0)
    assert plan.peak == alone.peak + logits  # the caller may hold the logits
    peaks = []
    for _ in range(3):
        model.zero_grad()
        with meter(torch.device("cpu")) as measured:
            results = model(X, Y)
            loss = results[0]
            del results
            loss.backward()
        peaks.append(measured.peak)
    assert plan.measured_peak is None  # no step is measured within another measurement
    assert peaks[-1] <= 1.02 * alone.peak


def test_memory_held_for_other_outputs_is_counted():
    model, plan = pgmo.recompute(Heads(), X, 1.0)
    whole = plan.peak
    for _ in range(3):
        model.zero_grad()
        first(model(X)).backward()
    assert plan.peak < whole
    assert plan.measured_peak == pytest.approx(plan.peak, rel=0.02)
    for _ in range(2):
        model.zero_grad()
        both(model(X)).backward()
    assert plan.peak == whole


class Three(nn.Module):
    """A model with three results of one tensor, which is a sum."""

    def __init__(self, last):
        super().__init__()
        self.c, self.t, self.last = nn.Linear(4, 4), nn.Linear(4, 4), last

    def forward(self, x):
        x = torch.sin(self.c(x))
        x = x + torch.sin(self.t(x))
        return x.cos(), x.exp(), self.last(x)


@pytest.mark.parametrize("last", [lambda x: x.sum(1), lambda x: x.view(3, 2, 4)])
def test_no_sum_overwrites_a_gradient_that_is_given_or_expanded(last):
    torch.manual_seed(0)
    plain, x = Three(last), torch.randn(6, 4)
    model = pgmo.recompute(copy.deepcopy(plain), x, "min", planner=proposed, measure=False)[0]
    for _ in range(3):
        result = model(x)[2]
        given = torch.randn(result.shape)
        before = given.clone()
        model.zero_grad()
        plain.zero_grad()
        result.backward(given)
        assert torch.equal(given, before)
        plain(x)[2].backward(before)
        for one, other in zip(model.parameters(), plain.parameters(), strict=True):
            assert torch.equal(one.grad, other.grad)
