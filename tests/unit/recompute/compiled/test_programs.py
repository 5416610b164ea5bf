"""Tests of programs of many kinds, whose bits are those of the plain model."""

import copy

import pytest
import torch
from torch import nn

import pgmo
from tests.unit.recompute.steps import same, step

WIDTH = 16
X = torch.linspace(-2, 2, 8 * WIDTH).reshape(8, WIDTH)


def layers():
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Dropout(0.1), nn.Linear(WIDTH, 8))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)


class LowRank(nn.Module):
    """A frozen layer with a low-rank adapter, as in fine-tuning."""

    def __init__(self):
        super().__init__()
        self.base = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        self.a, self.b = nn.Linear(WIDTH, 2, bias=False), nn.Linear(2, WIDTH, bias=False)

    def forward(self, x):
        return (self.base(x) + self.b(self.a(x)) * 0.5).exp()


class WritesBuffers(Layer):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(WIDTH))
        self.register_buffer("steps", torch.tensor(0))

    def forward(self, x):
        hidden = self.layer(x)
        self.mean.mul_(0.9).add_(hidden.detach().mean(0) * 0.1)
        self.steps += 1
        return (hidden.sigmoid() * hidden - self.mean).square().mean()


class ReplacesBuffers(WritesBuffers):
    def forward(self, x):
        hidden = self.layer(x)
        self.mean = 0.9 * self.mean + hidden.detach().mean(0) * 0.1
        return (hidden.sigmoid() * hidden - self.mean).square().mean()


class WritesParameters(Layer):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        with torch.no_grad():
            self.scale.clamp_(-0.5, 0.5)
        return (self.layer(x).exp() * self.scale).square().mean()


class CastsInside(Layer):
    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            x = self.layer(x).relu()
        return self.layer(x.float()).square().mean()


def twice(model, x):
    """Return the results of two steps, and the parameters."""
    kept = [one.detach().clone() for one in model.parameters()]
    return [*step(model, x), *step(model, x), *kept]


def cast(model, x):
    with torch.autocast("cpu", torch.bfloat16):
        return step(model, x)


def in_parts(model, x):
    """Return the summed gradients of three batches."""
    torch.manual_seed(0)
    model.zero_grad()
    for one in x.repeat(3, 1).chunk(3):
        model(one).square().mean().backward()
    return [one.grad for one in model.parameters()]


def scaled(model, x):
    """Take a step with a scaled loss, and return the loss and the parameters."""
    torch.manual_seed(0)
    scaler, optimizer = torch.amp.GradScaler("cpu"), torch.optim.SGD(model.parameters(), 0.1)
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(x).float().square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return [loss.detach(), *(one.detach().clone() for one in model.parameters())]


def writes_input(model, x):
    x = x.clone()
    return [*step(model, x), x]


class WritesInput(Layer):
    def forward(self, x):
        x.add_(1)
        return self.layer(x).exp().mean()


@pytest.mark.parametrize(
    ("make", "x", "run"),
    [
        (lambda: nn.Sequential(LowRank(), LowRank()), X, twice),
        (WritesBuffers, X, twice),
        (ReplacesBuffers, X, twice),
        (WritesParameters, X, twice),
        (WritesInput, X, writes_input),
        (CastsInside, X, twice),
        (layers, X, cast),
        (layers, X, in_parts),
        (layers, X, scaled),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_the_bits_are_those_of_the_plain_model(make, x, run):
    torch.manual_seed(0)
    plain = make()
    ours, _ = pgmo.recompute(copy.deepcopy(plain), x.clone(), measure=False, whole=True)
    assert same(run(ours, x), run(plain, x))


class Sequence(nn.Module):
    """A model with a recurrent layer between linear ones."""

    def __init__(self, kind, **options):
        super().__init__()
        self.into, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 4)
        self.memory = kind(WIDTH, WIDTH, 2, batch_first=True, **options)

    def forward(self, x):
        return self.out(self.memory(self.into(x).tanh())[0]).exp().mean()


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_recurrent_layers_run_as_they_are(kind, rate):
    torch.manual_seed(0)
    plain, x = Sequence(kind, dropout=rate), X.reshape(2, 4, WIDTH)
    with pytest.warns(UserWarning, match=r"not a single graph: .*self\.memory\("):
        ours, _ = pgmo.recompute(copy.deepcopy(plain), x, measure=False)
    assert same(twice(ours, x), twice(plain, x))
    assert nn.LSTM.forward.__module__ == "torch.nn.modules.rnn"
    assert not hasattr(kind.forward, "_torchdynamo_disable")


class Differentiates(Layer):
    """A model whose forward pass computes a derivative."""

    def __init__(self, of=None, **options):
        super().__init__()
        self.energy, self.of, self.options = nn.Linear(WIDTH, 1), of, options

    def forward(self, x):
        x = x.detach().requires_grad_()
        energy = self.energy(self.layer(x).tanh()).sum()
        of = x if self.of is None else self.layer.weight
        (force,) = torch.autograd.grad(energy, of, **self.options)
        return (self.layer(x) @ self.layer(force).tanh().T).square().mean()


@pytest.mark.parametrize("of", [None, "weight"])
@pytest.mark.filterwarnings("ignore:the forward pass is not a single graph")
def test_a_forward_pass_may_differentiate(of):
    torch.manual_seed(0)
    plain = Differentiates(of)
    ours, _ = pgmo.recompute(copy.deepcopy(plain), X, measure=False)
    assert same(twice(ours, X), twice(plain, X))


@pytest.mark.filterwarnings("ignore:the forward pass is not a single graph")
def test_second_derivatives_are_refused():
    model = Differentiates(create_graph=True)
    with pytest.raises((RuntimeError, pgmo.errors.GraphError), match="double backward"):
        step(pgmo.recompute(model, X, measure=False)[0], X)
