import importlib
from types import SimpleNamespace

import pytest

from pgmo.allocator.adapters.hooks import optimizer_state

torch = pytest.importorskip("torch")


@pytest.fixture
def seen(monkeypatch):
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


def test_only_first_steps_are_reported(seen):
    first, second = torch.optim.Adam([parameter()]), torch.optim.SGD([parameter()])
    for _ in range(3):
        first.step()
        second.step()
    assert seen == [True, False] * 2


def test_it_is_true_while_the_state_is_born(seen):
    class Optimizer(torch.optim.SGD):
        def step(self, closure=None):
            seen.append("born")
            super().step(closure)

    Optimizer([parameter()]).step()
    assert seen[:2] == [True, "born"]
    assert seen[-1] is False


def test_loaded_states_are_there_already(seen):
    optimizer = torch.optim.Adam([parameter()])
    optimizer.step()
    seen.clear()
    other = torch.optim.Adam([parameter()])
    other.load_state_dict(optimizer.state_dict())
    other.step()
    assert seen == []


@pytest.mark.parametrize("by_name", [False, True])
def test_a_closure_is_left_out(seen, by_name):
    optimizer = torch.optim.Adam([parameter()])

    def closure():
        seen.append("loss")
        return torch.ones(())

    for _ in range(2):
        loss = optimizer.step(closure=closure) if by_name else optimizer.step(closure)
        assert loss == 1
    assert seen == [False, "loss", True, False, "loss"]


def test_after_a_step_that_failed_the_next_one_begins_anew(seen):
    class Failing(torch.optim.SGD):
        def step(self, closure=None):
            raise ValueError("no step")

    with pytest.raises(ValueError, match="no step"):
        Failing([parameter()]).step()
    assert seen == [True]
    optimizer = torch.optim.Adam([parameter()])
    optimizer.step()
    assert seen == [True, False, True, False]


def test_a_listener_that_registers_twice_is_called_once(seen):
    report(seen)
    torch.optim.Adam([parameter()]).step()
    assert seen == [True, False]


def test_a_compiled_step_has_no_breaks(seen):
    optimizer = torch.optim.Adam([parameter()])
    explained = torch._dynamo.explain(optimizer.step)()
    plain = _plain_breaks()
    assert explained.graph_break_count == plain
    assert seen == []


def _plain_breaks():
    hooks = importlib.import_module("torch.optim.optimizer")._global_optimizer_pre_hooks
    kept = dict(hooks)
    hooks.clear()
    try:
        torch._dynamo.reset()
        return torch._dynamo.explain(torch.optim.Adam([parameter()]).step)().graph_break_count
    finally:
        hooks.update(kept)
