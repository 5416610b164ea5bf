"""Stand-in operators for the forward and the backward pass of a repeated submodule, or block.

Stand-in operators compute nothing. `expand` replaces them by copies of the traced block's nodes.
"""

from dataclasses import dataclass
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
    """Call of the block at `path`, which is not traced."""

    template: Template
    path: str
    results: tuple[TensorMetadata, ...]
    gradients: tuple[TensorMetadata, ...] = ()  # Of the block's inputs, set in the backward pass.


_calls: list[StandIn] = []
"""Calls by number. Numbers are not reused, because PyTorch caches fake results by arguments."""


def call(one: StandIn, given: list[Tensor]) -> tuple[Tensor, ...]:
    """Call the stand-in of a block; return fake results."""
    _calls.append(one)
    results: tuple[Tensor, ...] = StandInFunction.apply(  # type: ignore[no-untyped-call]
        len(_calls) - 1, *given
    )
    return results


def stand_in(number: int) -> StandIn:
    """Return the call with a number, which is an argument of both operators."""
    return _calls[number]


class StandInFunction(torch.autograd.Function):
    """The stand-in operator with its derivative."""

    stands_in = True
    """Distinguishes this function from custom functions of the user."""

    @staticmethod
    def forward(context: Any, number: int, *given: Tensor) -> tuple[Tensor, ...]:
        """Return fake results of the block."""
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
        """Return fake gradients with the metadata of the traced block's gradients."""
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
