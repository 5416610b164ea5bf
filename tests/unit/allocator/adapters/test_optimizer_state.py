import importlib
from types import SimpleNamespace

import pytest

from pgmo.allocator.adapters.hooks import optimizer_state

torch = pytest.importorskip("torch")


@pytest.fixture
def told(monkeypatch):
    """Yield the list of notifications; remove torch's hooks at the end."""
    optimizer = importlib.import_module("torch.optim.optimizer")
    monkeypatch.setattr(optimizer_state, "_library", None)
    before = (
        dict(optimizer._global_optimizer_pre_hooks),
        dict(optimizer._global_optimizer_post_hooks),
    )
    words = []
    report(words)
    yield words
    for now, then in zip(
        (optimizer._global_optimizer_pre_hooks, optimizer._global_optimizer_post_hooks),
        before,
        strict=True,
    ):
        now.clear()
        now.update(then)


def report(words):
    """Append a Boolean to `words` for each call of the adapter."""

    def ask(function, on):
        assert function == "pgmo_expect_lasting"
        words.append(bool(on))

    optimizer_state.report_optimizer_state(SimpleNamespace(ask=ask))


def parameter():
    one = torch.nn.Parameter(torch.ones(3))
    one.grad = torch.ones(3)
    return one


def test_only_first_steps_are_told_of(told):
    first, second = torch.optim.Adam([parameter()]), torch.optim.SGD([parameter()])
    for _ in range(3):
        first.step()
        second.step()
    assert told == [True, False] * 2


def test_it_is_true_while_the_state_is_born(told):
    class Optimizer(torch.optim.SGD):
        def step(self, closure=None):
            told.append("born")
            super().step(closure)

    Optimizer([parameter()]).step()
    assert told[:2] == [True, "born"]
    assert told[-1] is False


def test_loaded_states_are_there_already(told):
    optimizer = torch.optim.Adam([parameter()])
    optimizer.step()
    told.clear()
    other = torch.optim.Adam([parameter()])
    other.load_state_dict(optimizer.state_dict())
    other.step()
    assert told == []


@pytest.mark.parametrize("by_name", [False, True])
def test_a_closure_is_left_out(told, by_name):
    optimizer = torch.optim.Adam([parameter()])

    def closure():
        told.append("loss")
        return torch.ones(())

    for _ in range(2):
        loss = optimizer.step(closure=closure) if by_name else optimizer.step(closure)
        assert loss == 1
    assert told == [False, "loss", True, False, "loss"]


def test_after_a_step_that_failed_the_next_one_begins_anew(told):
    class Failing(torch.optim.SGD):
        def step(self, closure=None):
            raise ValueError("no step")

    with pytest.raises(ValueError, match="no step"):
        Failing([parameter()]).step()
    assert told == [True]
    optimizer = torch.optim.Adam([parameter()])
    optimizer.step()
    assert told == [True, False, True, False]


def test_who_is_told_twice_hears_it_once(told):
    report(told)
    torch.optim.Adam([parameter()]).step()
    assert told == [True, False]


def test_a_compiled_step_has_no_breaks(told):
    optimizer = torch.optim.Adam([parameter()])
    explained = torch._dynamo.explain(optimizer.step)()
    plain = _plain_breaks()
    assert explained.graph_break_count == plain
    assert told == []


def _plain_breaks():
    hooks = importlib.import_module("torch.optim.optimizer")._global_optimizer_pre_hooks
    kept = dict(hooks)
    hooks.clear()
    try:
        torch._dynamo.reset()
        return torch._dynamo.explain(torch.optim.Adam([parameter()]).step)().graph_break_count
    finally:
        hooks.update(kept)
