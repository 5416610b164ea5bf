"""Steps of somebody else's model: how one is run, measured, changed and compared.

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
    """One step without the optimizer; what it computes, bit by bit."""
    model.zero_grad(set_to_none=True)
    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed)  # noqa: NPY002  (what models of speech draw their masks with)
    _backward(model, batch)
    return {
        "loss": [_last[0]],
        "gradients": [one.grad for one in model.parameters()],
        "buffers": [one.clone() for one in model.buffers()],
        "random numbers": [torch.rand(2)],
    }


_last: list[Tensor] = [torch.zeros(())]


def _backward(model: nn.Module, batch: Batch) -> None:
    """Results stay until the backward pass is over, as in most programs."""
    result = model(**batch) if isinstance(batch, dict) else model(*batch)
    loss = result if isinstance(result, Tensor) else result["loss"]
    loss.backward()
    _last[0] = loss.detach()


def compare(one: Bits, other: Bits) -> dict[str, bool]:
    """Whether each part is the same bits; a gradient that is None has to be None in both."""
    return {part: all(map(_equal, one[part], other[part])) for part in one}


def _equal(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return torch.equal(one, other)


def peak(model: nn.Module, batch: Batch) -> int:
    """Most bytes that a step holds at once, above what is there before it."""
    model.zero_grad(set_to_none=True)
    torch.manual_seed(0)
    return peak_of(lambda: _backward(model, batch))


def changes(made: Made) -> Iterator[tuple[str, Callable[[nn.Module], Batch]]]:
    """Five steps: what is another one in each, and a function that changes a model so."""
    usual, other = made.batch(made.samples), made.batch(made.samples)
    smaller = made.batch(max(2, made.samples // 2))
    yield "the first batch", lambda _: usual
    yield "another batch", lambda _: other
    yield "another size", lambda _: smaller
    yield "other numbers", lambda model: _other_numbers(model) or usual
    yield "evaluation mode", lambda model: model.eval() and usual


def _other_numbers(model: nn.Module) -> None:
    """Rates of dropouts and epsilons of norms, PyTorch's and the library's own."""
    for module in model.modules():
        for name in ("eps", "variance_epsilon", "p"):
            value = vars(module).get(name)
            if isinstance(value, float):
                setattr(module, name, 0.5 * value)


class LibraryBudget:
    """PyTorch's `activation_memory_budget` for somebody else's model.

    Args:
        model: the module.
        batch: of a step.
        budget: from 0, recompute everything, to 1, what a compiled step saves by itself.
    """

    def __init__(self, model: nn.Module, batch: Batch, budget: float) -> None:
        self._model, self._batch = model, batch
        torch._dynamo.reset()
        self._partitioned = Partitioned(model)
        with functorch_config.patch(activation_memory_budget=budget):
            self.step()

    @property
    def share(self) -> float:
        """Time of what is computed again over the forward pass's, by the model of costs."""
        return self._partitioned.share

    def step(self) -> None:
        """One step without the optimizer."""
        self._begin()
        _backward(self._partitioned.model, self._batch)

    def peak(self) -> int:
        """As `peak` of a model."""
        self._begin()
        return peak_of(lambda: _backward(self._partitioned.model, self._batch))

    def _begin(self) -> None:
        self._model.zero_grad(set_to_none=True)
        torch.manual_seed(0)
