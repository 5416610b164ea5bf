"""What goes in and comes out of a captured step: AOTAutograd's notes on it, from 2.10 on.

They are known by the names of their types, which older versions of PyTorch do not have: there a
step is not kept.
"""

from typing import Any

from torch import fx
from torch.utils import _pytree

from pgmo.recompute.capture.compat import Spec, is_tangent

Places = tuple[list[tuple[str, str | int]], list[str], int, list[tuple[int, list[int], list[int]]]]


def places(forward: fx.GraphModule, backward: fx.GraphModule) -> Places | None:
    """What goes in and comes out of a captured step, as AOTAutograd has noted it.

    Args:
        forward: the forward pass.
        backward: the backward pass for all gradients, whose last inputs are those of outputs.

    Returns:
        The inputs, each a kind ("parameter", "buffer", "given") and a name or number; the names of
        buffers that are written; the number of other outputs; for each gradient of an output the
        output's number, its shape and its strides. None where that is not noted, or more complex.
    """
    inputs: list[tuple[str, str | int]] = []
    mark: Any
    for node in forward.graph.find_nodes(op="placeholder"):
        mark = node.meta.get("desc")
        match type(mark).__name__:
            case "ParamAOTInput":
                inputs.append(("parameter", mark.target.removeprefix("module.")))
            case "BufferAOTInput":
                inputs.append(("buffer", mark.target.removeprefix("module.")))
            case "PlainAOTInput":
                inputs.append(("given", int(mark.idx)))
            case _:
                return None
    (last,) = forward.graph.find_nodes(op="output")
    writes: list[str] = []
    outputs = 0
    for mark in last.meta.get("desc") or ():
        match type(mark).__name__:
            case "InputMutationAOTOutput" if type(mark.mutated_input).__name__ == "BufferAOTInput":
                if outputs:
                    return None
                writes.append(mark.mutated_input.target.removeprefix("module."))
            case "PlainAOTOutput":
                if mark.idx != outputs:
                    return None
                outputs += 1
            case "SavedForBackwardsAOTOutput" | "SavedForBackwardsNoVcCheckAOTOutput":
                break
            case _:
                return None
    tangents: list[tuple[int, list[int], list[int]]] = []
    for node in backward.graph.find_nodes(op="placeholder"):
        if not is_tangent(node):
            if tangents:
                return None
            continue
        mark = node.meta.get("desc")
        output: Any = getattr(mark, "output", None)
        if type(mark).__name__ != "TangentAOTInput" or type(output).__name__ != "PlainAOTOutput":
            return None
        value = node.meta["val"]
        tangents.append((int(output.idx), list(value.shape), list(value.stride())))
    return inputs, writes, outputs, tangents


def save_spec(spec: Spec) -> str:
    """How tensors are nested, as text.

    Raises:
        NotImplementedError: a type has no text.
    """
    return _pytree.treespec_dumps(spec)


def load_spec(text: str) -> Spec:
    """Undoes `save_spec`, where the same types are registered."""
    return _pytree.treespec_loads(text)
