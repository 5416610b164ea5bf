"""Calls that cannot be captured, whatever the model computes."""

import inspect
from collections.abc import Callable
from typing import Any

from pgmo.errors import GraphError

NOTHING = (
    "nothing in the model needs gradients: there is no backward pass to plan for. Set "
    "requires_grad on the parameters that are trained"
)


class NothingToPlanError(GraphError):
    """Nothing that a call computes can be differentiated."""


def refuse_arguments(
    forward: Callable[..., Any], name: str, arguments: tuple[tuple[Any, ...], dict[str, Any]]
) -> None:
    """Raise an error where a forward method does not take the arguments.

    Args:
        forward: the method.
        name: of the model's class.
        arguments: positional and keyword arguments.

    Raises:
        GraphError: it does not take them.
    """
    try:
        known = inspect.signature(forward)
    except (TypeError, ValueError):
        return
    try:
        known.bind(*arguments[0], **arguments[1])
    except TypeError as error:
        names = ", ".join(str(one) for one in known.parameters.values())
        raise GraphError(
            f"{name}.forward cannot be called with these inputs: {error}. It takes ({names}): give "
            "a tuple of positional arguments, or a dictionary of keyword arguments"
        ) from None
