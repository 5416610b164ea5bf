"""Record of the nodes into which one block, a repeated submodule, is traced.

Autograd runs derivatives in the reverse order of the forward pass. So the nodes of a block are
contiguous in both passes, and hooks on its inputs and results find the nodes of the backward pass.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, fx

from pgmo.recompute.capture.compat import node_of, nodes_from, traced_graph


class NotAlikeError(Exception):
    """Error for blocks that tracing shows to be different, or impossible to copy."""


@dataclass(frozen=True, slots=True)
class TensorMetadata:
    """Properties of a tensor that determine how it is traced."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool

    @classmethod
    def of(cls, tensor: Tensor) -> "TensorMetadata":
        """Return the properties of a tensor."""
        return cls(
            tuple(tensor.shape),
            tensor.stride(),
            tensor.dtype,
            tensor.device,
            tensor.requires_grad,
        )

    def made_bytes(self) -> int:
        """Return the bytes of the storage of `made()`."""
        if 0 in self.shape:
            return 0
        last = sum((n - 1) * step for n, step in zip(self.shape, self.stride, strict=True))
        return (last + 1) * self.dtype.itemsize

    def made(self) -> Tensor:
        """Create a tensor with these properties."""
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=self.device)


@dataclass(slots=True)
class Template:
    """Names of the nodes of one traced block.

    Attributes:
        path: path of the block.
        inputs: inputs of the block, with parameters.
        results: results of the block.
        forward: nodes of the forward pass, in order.
        backward: nodes of the backward pass, in order.
        tangents: gradient of each result, or None.
        gradients: gradient of each input, with metadata, or None.
    """

    path: str = ""
    inputs: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    forward: list[str] = field(default_factory=list)
    backward: list[str] = field(default_factory=list)
    tangents: list[str | None] = field(default_factory=list)
    gradients: list[tuple[str, TensorMetadata] | None] = field(default_factory=list)
    _begin: int = -1

    def trace(self, path: str, given: list[Tensor], run: Callable[[], Sequence[Tensor]]) -> None:
        """Run the block and record its nodes; raise NotAlikeError if it writes into its inputs."""
        self.path, self.inputs = path, [_name(one) for one in given]
        before = _count()
        results = run()
        self.forward = _names_since(before)
        self.results = [_name(one) for one in results]
        if self.inputs != [_name(one) for one in given]:
            raise NotAlikeError(f"{path} writes into its inputs")
        self.tangents, self.gradients = [None] * len(results), [None] * len(given)
        for place, one in enumerate(results):
            if one.requires_grad:
                one.register_hook(self._noting_tangent(place))  # type: ignore[no-untyped-call]
        for place, one in enumerate(given):
            if one.requires_grad:
                one.register_hook(self._noting_gradient(place))  # type: ignore[no-untyped-call]

    def gradients_of(self, came: Sequence[Tensor | None]) -> list[TensorMetadata | None]:
        """Return the metadata of the gradient of each input of another block; None for no gradient.

        Args:
            came: the gradient of each of the other block's results, or None.

        Raises:
            NotAlikeError: if the traced block has no backward pass yet, or gets gradients of other
                results.
        """
        if not self.backward or [one is None for one in came] != [
            one is None for one in self.tangents
        ]:
            raise NotAlikeError(f"{self.path} is differentiated in another way")
        return [None if one is None else one[1] for one in self.gradients]

    def _noting_tangent(self, place: int) -> Callable[[Tensor], None]:
        def note(gradient: Tensor) -> None:
            if self._begin < 0:
                self._begin = _count()
            self.tangents[place] = _name(gradient)

        return note

    def _noting_gradient(self, place: int) -> Callable[[Tensor], None]:
        def note(gradient: Tensor) -> None:
            self.gradients[place] = (_name(gradient), TensorMetadata.of(gradient))
            self.backward = _names_since(self._begin)

        return note


def _name(tensor: Tensor) -> str:
    node = node_of(tensor)
    if node is None:
        raise NotAlikeError("a tensor is not in the graph")
    return node.name


def _graph() -> fx.Graph:
    graph = traced_graph()
    if graph is None:
        raise NotAlikeError("no graph is traced")
    return graph


def _count() -> int:
    return len(_graph().nodes)


def _names_since(before: int) -> list[str]:
    return [node.name for node in nodes_from(_graph(), before)]
