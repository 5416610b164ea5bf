"""One operator in the place of a whole block, forward and backward, while a step is traced.

    traced   block(x, weights)            block_backward(gradient)
    later    norm  mul  sum  gelu ...     what autograd has made of the block that was traced

It computes nothing: `expand` writes the nodes of the traced block in its place before anything
else looks at the graph.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from pgmo.recompute.capture.compat import library
from pgmo.recompute.capture.repeated.template import Template, TensorMetadata

library.define("block(Tensor[] given, int number) -> Tensor[]")
library.define("block_backward(Tensor[] gradients, int number) -> Tensor[]")

BLOCK = torch.ops.pgmo.block.default
BACKWARD = torch.ops.pgmo.block_backward.default


@dataclass(slots=True)
class StandIn:
    """One call of a block that is not traced.

    Attributes:
        template: the call that is.
        path: path of its module.
        results: metadata of the results of the block.
    """

    template: Template
    path: str
    results: tuple[TensorMetadata, ...]
    gradients: tuple[TensorMetadata, ...] = field(default=())


_calls: list[StandIn] = []
"""By number; it only grows, as PyTorch remembers what an operator gives for a number."""


def call(one: StandIn, given: list[Tensor]) -> tuple[Tensor, ...]:
    """Return the results of a block, which computes nothing."""
    _calls.append(one)
    results: tuple[Tensor, ...] = StandInFunction.apply(  # type: ignore[no-untyped-call]
        len(_calls) - 1, *given
    )
    return results


def stand_in(number: int) -> StandIn:
    """Return the call of a number, as the nodes of both operators have it."""
    return _calls[number]


class StandInFunction(torch.autograd.Function):
    """The operator with its derivative."""

    stands_in = True
    """Its derivative is not code of somebody else's."""

    @staticmethod
    def forward(context: Any, number: int, *given: Tensor) -> tuple[Tensor, ...]:
        """Return tensors that look like the results of the block."""
        context.number, context.given = number, len(given)
        context.set_materialize_grads(False)
        results = torch.ops.pgmo.block(list(given), number)
        metadata = _calls[number].results
        context.mark_non_differentiable(
            *(
                one
                for one, described in zip(results, metadata, strict=True)
                if not described.requires_grad
            )
        )
        return tuple(results)

    @staticmethod
    def backward(context: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """Return tensors that look like the gradients of the traced block."""
        one = _calls[context.number]
        came = [gradient for gradient in gradients if gradient is not None]
        metadata = one.template.gradients_of(gradients)
        one.gradients = tuple(described for described in metadata if described is not None)
        made = iter(torch.ops.pgmo.block_backward(came, context.number))
        return (None, *(None if described is None else next(made) for described in metadata))


@torch.library.register_fake("pgmo::block", lib=library)  # type: ignore[untyped-decorator]
def _results_of_block(_given: list[Tensor], number: int) -> list[Tensor]:
    return [one.made() for one in _calls[number].results]


@torch.library.register_fake("pgmo::block_backward", lib=library)  # type: ignore[untyped-decorator]
def _results_of_backward(_gradients: list[Tensor], number: int) -> list[Tensor]:
    return [one.made() for one in _calls[number].gradients]
