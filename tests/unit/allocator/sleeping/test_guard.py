"""Calls that are refused while a module or its parameters sleep."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from pgmo.allocator.sleeping.guard import SleepGuard
from pgmo.errors import SessionError

INPUT = torch.zeros(2, 4)


def module() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))


@contextmanager
def asleep(objects: Any) -> Iterator[None]:
    guard = SleepGuard(objects)
    try:
        yield
    finally:
        guard.end()


LISTS: list[Callable[[torch.nn.Module], Any]] = [
    lambda model: model,
    lambda model: list(model.parameters()),
    lambda model: [model.get_submodule("1")],
    lambda model: [model.get_submodule("1").weight],
]


@pytest.mark.parametrize("listed", LISTS)
def test_calls_of_modules_are_refused(listed: Callable[[torch.nn.Module], Any]) -> None:
    model, other = module(), module()
    with asleep(listed(model)):
        with pytest.raises(SessionError, match="the memory of this"):
            model(INPUT)
        other(INPUT)
    model(INPUT)


@pytest.mark.filterwarnings("ignore:Using `torch.compile")
@pytest.mark.parametrize("listed", LISTS)
def test_calls_of_compiled_modules_are_refused(listed: Callable[[torch.nn.Module], Any]) -> None:
    model, other = module(), module()
    compiled, others = (torch.compile(one, backend="eager") for one in (model, other))
    compiled(INPUT), others(INPUT)  # compiled without the guard's hooks
    with asleep(listed(model)):
        with pytest.raises(SessionError, match="the memory of this Sequential sleeps"):
            compiled(INPUT)
        others(INPUT)
    compiled(INPUT)
