"""Tests of steps of compiled code, which are recognized by their effects on optimizers."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from pgmo.runner.compiled_calls import CompiledCalls  # noqa: E402


def make(frozen=0):
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(frozen + 1)))
    model[:-1].requires_grad_(False)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def step(model, optimizer):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def stepped(calls, work, *optimizers):
    calls.enter(optimizers)
    work()
    return calls.leave()


@pytest.mark.parametrize("frozen", [0, 8, 100])
def test_stepped_optimizers_are_distinguished(frozen):
    (model, one), (_, other) = make(frozen), make()
    calls = CompiledCalls()
    for _ in range(3):
        assert stepped(calls, lambda: step(model, one), one, other) == [one]
        assert stepped(calls, lambda: model(torch.ones(2, 4)), one, other) == []


def test_clipping_parameters_is_no_step_of_an_optimizer():
    model, optimizer = make()
    calls = CompiledCalls()
    calls.seen(optimizer)
    with torch.no_grad():
        assert stepped(calls, lambda: model[0].weight.clamp_(-1, 1), optimizer) == []


def test_parameters_may_come_and_go():
    model, optimizer = make()
    calls = CompiledCalls()
    assert stepped(calls, lambda: step(model, optimizer), optimizer) == [optimizer]
    more, _ = make()
    optimizer.add_param_group({"params": list(more.parameters())})
    assert stepped(calls, lambda: step(more, optimizer), optimizer) == [optimizer]
    del optimizer.param_groups[0]["params"][1:]
    assert stepped(calls, lambda: step(more, optimizer), optimizer) == [optimizer]


def test_an_optimizer_without_parameters_does_not_step():
    class Wrapper(torch.optim.Optimizer):
        def __init__(self):
            pass

    calls = CompiledCalls()
    assert stepped(calls, lambda: None, Wrapper()) == []
