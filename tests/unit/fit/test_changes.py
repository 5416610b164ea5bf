"""Tests of changes that the observer makes in a script, on the CPU."""

import pytest

from pgmo.fit.observer.changes import ScriptChange, checkpoint_blocks

torch = pytest.importorskip("torch")


class Block(torch.nn.Module):
    """One of several blocks of the same class."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute the block, and count its calls."""
        self.calls += 1
        return self.inner(x).relu()


def test_each_block_of_a_list_is_computed_twice() -> None:
    model = torch.nn.Sequential(Block(), Block(), torch.nn.Linear(4, 1))
    assert checkpoint_blocks(model) == 2
    model(torch.randn(3, 4, requires_grad=True)).sum().backward()
    assert [model[0].calls, model[1].calls] == [2, 2]


def test_blocks_are_found_below_as_well() -> None:
    model = torch.nn.Module()
    model.layers = torch.nn.ModuleList(Block() for _ in range(3))
    model.head = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    assert checkpoint_blocks(model) == 3


@pytest.mark.parametrize(
    "name",
    ["gradient_checkpointing_enable", "enable_gradient_checkpointing", "set_grad_checkpointing"],
)
def test_the_switch_of_a_model_is_called(name: str) -> None:
    model = torch.nn.Sequential(Block(), Block())
    calls: list[dict[str, object]] = []
    setattr(model, name, lambda **options: calls.append(options))
    assert checkpoint_blocks(model) == -1
    assert len(calls) == 1


def test_the_outermost_call_is_changed_once() -> None:
    change = ScriptChange("checkpoint")
    model = torch.nn.Sequential(Block(), Block())
    change._enter(model, ())
    change._enter(model[0], ())
    change._leave(model[0], (), None)
    change._leave(model, (), None)
    model(torch.randn(3, 4, requires_grad=True)).sum().backward()
    assert model[0].calls == 2
