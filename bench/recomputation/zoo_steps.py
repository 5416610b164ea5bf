"""Steps of a library's model: run, measure, change and compare them.

for title, change in changes(made):     # other batches, sizes, numbers, modes
batch = change(model)
compare(run_step(plain, batch, 0), run_step(model, batch, 0))
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch
from torch import Tensor, nn
from torch._functorch import config as functorch_config
from workloads.zoo import Batch, Made

from recomputation.step_ways import Partitioned, peak_of

Bits = dict[str, list[Any]]


def run_step(model: nn.Module, batch: Batch, seed: int) -> Bits:
    """Run a step without the optimizer, and return its results."""
    model.zero_grad(set_to_none=True)
    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed)  # noqa: NPY002  (models of speech draw masks with it)
    _backward(model, batch)
    return {
        "loss": [_last[0]],
        "gradients": [one.grad for one in model.parameters()],
        "buffers": [one.clone() for one in model.buffers()],
        "random numbers": [torch.rand(2)],
    }


_last: list[Tensor] = [torch.zeros(())]


def _backward(model: nn.Module, batch: Batch) -> None:
    """Run both passes. The model's results live until the end, as in most programs."""
    result = model(**batch) if isinstance(batch, dict) else model(*batch)
    loss = result if isinstance(result, Tensor) else result["loss"]
    loss.backward()
    _last[0] = loss.detach()


def compare(one: Bits, other: Bits) -> dict[str, bool]:
    """Return whether each part is bit-identical; None equals only None."""
    return {part: all(map(_equal, one[part], other[part])) for part in one}


def _equal(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return torch.equal(one, other)


def peak(model: nn.Module, batch: Batch) -> int:
    """Return the peak of a step in bytes, without what is allocated before it."""
    model.zero_grad(set_to_none=True)
    torch.manual_seed(0)
    return peak_of(lambda: _backward(model, batch))


def changes(made: Made) -> Iterator[tuple[str, Callable[[nn.Module], Batch]]]:
    """Yield five titles of changes, each with a function that makes it and returns a batch."""
    usual, other = made.batch(made.samples), made.batch(made.samples)
    smaller = made.batch(max(2, made.samples // 2))
    yield "the first batch", lambda _: usual
    yield "another batch", lambda _: other
    yield "another size", lambda _: smaller
    yield "other numbers", lambda model: _other_numbers(model) or usual
    yield "evaluation mode", lambda model: model.eval() and usual


def _other_numbers(model: nn.Module) -> None:
    """Halve dropout rates and epsilons of norms, of PyTorch's and of the library's modules."""
    for module in model.modules():
        for name in ("eps", "variance_epsilon", "p"):
            value = vars(module).get(name)
            if isinstance(value, float):
                setattr(module, name, 0.5 * value)


class LibraryBudget:
    """PyTorch's `activation_memory_budget` for a library's model.

    Args:
        model: the module.
        batch: batch of a step.
        budget: from 0 (recompute everything) to 1 (save what a compiled step saves by default).
    """

    def __init__(self, model: nn.Module, batch: Batch, budget: float) -> None:
        self._model, self._batch = model, batch
        torch._dynamo.reset()
        self._partitioned = Partitioned(model)
        with functorch_config.patch(activation_memory_budget=budget):
            self.step()

    @property
    def share(self) -> float:
        """Cost of operations that run again, as a share of the forward pass, by pgmo's model."""
        return self._partitioned.share

    def step(self) -> None:
        """Run a step without the optimizer."""
        self._begin()
        _backward(self._partitioned.model, self._batch)

    def peak(self) -> int:
        """Return the peak of a step in bytes, without what is allocated before it."""
        self._begin()
        return peak_of(lambda: _backward(self._partitioned.model, self._batch))

    def _begin(self) -> None:
        self._model.zero_grad(set_to_none=True)
        torch.manual_seed(0)
