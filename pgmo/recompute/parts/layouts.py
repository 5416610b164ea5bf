"""How gradients lie in memory where they go into parts, and come out of them.

    y = conv(x).transpose(1, 2)    a captured part takes the gradient of y as y lies, transposed
    norm(y).backward()             gives it row by row

Copied to the other layout it has the same numbers; a convolution's derivative adds them up in
another order. Such a part is not captured.
"""

from collections.abc import Sequence

from torch import Tensor, fx

from pgmo.recompute.capture.absent import tangents
from pgmo.recompute.capture.compat import flatten, is_tangent
from pgmo.recompute.capture.joint_graph import Captured

Layout = tuple[tuple[int, int], ...]
"""Sizes and strides of the dimensions that have more than one place."""


def layout(tensor: Tensor) -> Layout:
    """How a tensor lies in memory.

    Example:
        >>> import torch
        >>> layout(torch.ones(2, 1, 3)), layout(torch.ones(2, 1, 1).expand(2, 1, 3))
        (((2, 3), (3, 1)), ((2, 1), (3, 0)))
    """
    return tuple(
        (int(size), int(stride))
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
        if size != 1
    )


def are_taken(captured: Captured, came: Sequence[Layout | None]) -> bool:
    """Whether gradients lie as a captured part takes them.

    Args:
        captured: the part, for all gradients or for those that come.
        came: of each result with a derivative, how its gradient lies; None where none comes.
    """
    expected = [layout(node.meta["val"]) for node in tangents(captured.joint)]
    given = list(came) if len(came) == len(expected) else [one for one in came if one is not None]
    return len(given) == len(expected) and all(
        one is None or one == other for one, other in zip(given, expected, strict=True)
    )


def strides_of_gradients(captured: Captured, inputs: int) -> list[tuple[int, ...] | None]:
    """How the gradients of a part's last inputs lie; None where there is none.

    Args:
        captured: the part.
        inputs: how many, from the last one backwards.
    """
    joint = captured.joint.graph
    given = [node for node in joint.find_nodes(op="placeholder") if not is_tangent(node)]
    (last,) = joint.find_nodes(op="output")
    made = flatten(last.args)[0][captured.outputs :][: len(given)]
    return [
        tuple(node.meta["val"].stride()) if isinstance(node, fx.Node) else None
        for node in made[len(made) - inputs :]
    ]
