"""Runs a step that was kept: what AOTAutograd's wrappers do for one that was captured here.

inputs      parameters and buffers by name, the call's tensors
forward     outputs, new contents of buffers, what the backward pass needs
backward    the expected gradients: the program made for them
            other ones: the whole program, with zeros for those that do not come
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pgmo.recompute.capture.compat import boxes_gradients
from pgmo.recompute.kept.program import Compiled, SerializedProgram, nodes
from pgmo.recompute.kept.unfit import UnfitError
from pgmo.recompute.runtime.offload.host import Host

Place = tuple[str, str | int]


@dataclass(frozen=True)
class StepSignature:
    """Inputs and outputs of a captured step.

    Args:
        inputs: ("parameter", name), ("buffer", name), or ("given", number of the call's tensor).
        writes: names of the buffers whose new contents are the first outputs.
        outputs: how many there are after them.
        tangents: for each gradient of an output, the number of the output, its shape and strides.
        expected: which of the tangents come.
        reads: of what the whole backward pass is given, what the program for those reads; None
            where it is the same program.
    """

    inputs: list[Place]
    writes: list[str]
    outputs: int
    tangents: list[tuple[int, list[int], list[int]]]
    expected: list[int]
    reads: list[int] | None

    def as_data(self) -> list[Any]:
        """For JSON."""
        parts = (self.inputs, self.writes, self.outputs, self.tangents, self.expected, self.reads)
        return list(parts)

    @classmethod
    def of_data(cls, data: Any) -> "StepSignature":
        """From `as_data`."""
        inputs, writes, outputs, tangents, expected, reads = data
        places = [(str(kind), one) for kind, one in inputs]
        return cls(places, writes, outputs, [(n, s, t) for n, s, t in tangents], expected, reads)


class Function:
    """A kept step as a function of the call's tensors.

    Args:
        model: whose parameters and buffers it uses.
        signature: of the step.
        forward: its forward pass.
        narrow: its backward pass for the expected gradients.
        whole: gives its backward pass for all gradients.
        host: where values wait that are offloaded.

    Attributes:
        surprised: whether other gradients have come than expected.

    Raises:
        UnfitError: the model has no such parameters.
    """

    def __init__(
        self,
        model: nn.Module,
        signature: StepSignature,
        forward: SerializedProgram,
        narrow: SerializedProgram,
        whole: Callable[[], SerializedProgram],
        host: Host,
    ) -> None:
        self._signature, self._host = signature, host
        self._inputs = [_owner(model, place) for place in signature.inputs]
        self._written = [_owner(model, ("buffer", name)) for name in signature.writes]
        self._forward, self._narrow = Compiled(forward, host), Compiled(narrow, host)
        self._find_whole = whole
        self.surprised = False
        self._function = _autograd_function(self)

    def __call__(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The outputs.

        Raises:
            DiffersError: a value of a tensor is not what the capture assumes.
        """
        inputs = [
            tensors[int(name)] if owner is None else getattr(owner, str(name))
            for owner, name in self._inputs
        ]
        with torch._C._DisableAutocast():
            results = list(self._function.apply(*inputs))
            with torch.no_grad():
                for (owner, name), new in zip(self._written, results, strict=False):
                    getattr(owner, str(name)).copy_(new)
        return results[len(self._written) :]

    def forward(self, ctx: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The forward pass below autograd."""
        results = self._forward.run(list(inputs))
        count = len(self._written) + self._signature.outputs
        outputs, saved = results[:count], results[count:]
        del results
        ctx.save_for_backward(*saved)
        trained = {number + len(self._written) for number, _, _ in self._signature.tangents}
        ctx.mark_non_differentiable(*(one for i, one in enumerate(outputs) if i not in trained))
        ctx.set_materialize_grads(False)
        return tuple(outputs)

    def backward(self, ctx: Any, gradients: list[Tensor | None]) -> tuple[Any, ...]:
        """The backward pass; it empties the list of gradients."""
        given = list(ctx.saved_tensors)
        ctx.maybe_clear_saved_tensors()
        first = len(self._written)
        tangents: list[Tensor | None] = []
        for number, _, strides in self._signature.tangents:
            tangents.append(_laid_out(gradients[number + first], strides))
        gradients.clear()
        came = [index for index, one in enumerate(tangents) if one is not None]
        with torch._C._DisableAutocast():
            if came == self._signature.expected:
                given += tangents
                tangents.clear()
                if self._signature.reads is not None:
                    given[:] = [given[place] for place in self._signature.reads]
                return tuple(self._narrow.run(given))
            return self._surprise(given, tangents)

    def _surprise(self, given: list[Tensor], tangents: list[Tensor | None]) -> tuple[Any, ...]:
        """Gradients that depend on absent ones alone are absent, as autograd has it."""
        self.surprised = True
        whole = self._find_whole()
        saved, device = len(given), given[0].device if given else torch.device("cpu")
        device = next((one.device for one in tangents if one is not None), device)
        kind = next(one.dtype for one in tangents if one is not None)
        absent = set()
        for index, (_, shape, strides) in enumerate(self._signature.tangents):
            one = tangents[index]
            if one is None:
                absent.add(saved + index)
                one = torch.empty_strided(shape, strides, dtype=kind, device=device).zero_()
            given.append(one)
        results = Compiled(whole, self._host).run(given)
        comes = _depends(whole, saved, absent)
        return tuple(one if wanted else None for one, wanted in zip(results, comes, strict=True))


def _depends(program: SerializedProgram, first: int, absent: set[int]) -> list[bool]:
    """Whether each result depends on a gradient that comes, or on none at all."""
    on: dict[int, set[int]] = {one: {one} for one in range(first, program.inputs)}
    for index, step in enumerate(program.steps):
        read = [one for part in (*step[1], *step[2].values()) for one in nodes(part)]
        on[program.inputs + index] = set().union(*(on.get(one, set()) for one in read))
    found = []
    for one in program.results[next(iter(program.results))]:
        depends = set().union(*(on.get(each, set()) for each in nodes(one)))
        found.append(not depends or not depends <= absent)
    return found


def _laid_out(gradient: Tensor | None, strides: list[int]) -> Tensor | None:
    """A gradient as the backward pass was captured with it."""
    if gradient is None or list(gradient.stride()) == strides:
        return gradient
    made = torch.empty_strided(
        gradient.shape, strides, dtype=gradient.dtype, device=gradient.device
    )
    return made.copy_(gradient)


def _owner(model: nn.Module, place: Place) -> tuple[nn.Module | None, str | int]:
    kind, name = place
    if kind == "given":
        return None, int(name)
    path, _, own = str(name).rpartition(".")
    try:
        owner = model.get_submodule(path)
        found = getattr(owner, own)
    except AttributeError as error:
        raise UnfitError(f"the model has no {name}") from error
    if not isinstance(found, Tensor):
        raise UnfitError(f"the model has no tensor {name}")
    return owner, own


def _autograd_function(step: Function) -> Any:
    @torch.autograd.function.once_differentiable
    def once(ctx: Any, *gradients: Tensor | None) -> Any:
        return step.backward(ctx, list(gradients))

    class CompiledFunction(torch.autograd.Function):  # as AOTAutograd's, by which it is found
        boxed_grads_call = True  # where PyTorch knows it, gradients come in a list

        @staticmethod
        def forward(ctx: Any, *inputs: Tensor) -> Any:
            return step.forward(ctx, inputs)

        @staticmethod
        def backward(ctx: Any, *given: Any) -> Any:
            gradients = given[0] if boxes_gradients() else list(given)
            if torch.is_grad_enabled():
                return once(ctx, *gradients)
            return step.backward(ctx, gradients)

    return CompiledFunction
