"""Errors of captures, described for the user."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.exc import BackendCompilerFailed, TorchDynamoException

from pgmo.errors import BudgetError, GraphError, PgmoError
from pgmo.recompute.calls.lines import is_foreign, line, line_of_error

NOTHING = (
    "nothing in the model needs gradients: there is no backward pass to plan for. Set "
    "requires_grad on the parameters that are trained"
)


class NothingToPlanError(GraphError):
    """Error for a call of which nothing can be differentiated."""


_FIT = "If the model by itself ends so, too, the inputs do not fit it; look at their shapes first"


def error_of_capture(error: Exception, name: str) -> PgmoError:
    """Return the error of a capture for the user, without PyTorch's frames."""
    if isinstance(error, BackendCompilerFailed):
        error = error.inner_exception
    if isinstance(error, PgmoError):
        return error.with_traceback(None)  # Dozens of PyTorch's frames explain nothing.
    inner = _innermost(error) if isinstance(error, TorchDynamoException) else error
    if isinstance(inner, torch.OutOfMemoryError):
        return BudgetError(
            f"the step of {name} cannot be captured: its forward pass is run once without "
            "gradients, and does not fit on the card even so. "
            f"Give a smaller batch. PyTorch says: {inner}"
        )
    where = _line_of_dynamo(error) or line_of_error(error)
    at = f", at {where}" if where else ""
    said = str(inner).strip().partition("\n")[0].rstrip(".")
    return GraphError(f"the step cannot be captured: {said}{at}. {_FIT}")


def _innermost(error: BaseException) -> BaseException:
    """Return the error that caused Dynamo's errors."""
    following = error.__cause__ or error.__context__
    return error if following is None else _innermost(following)


def _line_of_dynamo(error: Exception) -> str | None:
    """Return the innermost line of the user's code that Dynamo was tracing."""
    for place in reversed(getattr(error, "real_stack", None) or ()):
        if is_foreign(place.filename):
            return line(place.filename, place.lineno or 0)
    return None


def too_many(name: str, count: int, reason: str) -> GraphError:
    """Return the error for calls of one kind that are captured again and again."""
    return GraphError(
        f"calls of {name} of one kind were captured {count} times, as what its forward pass reads "
        f"is another value each time. The last one was captured because this was not so: {reason}. "
        "Give a value that changes to the call as a tensor, keep it in a buffer, or read it where "
        "no graph is captured (torch.compiler.disable)"
    )


def refuse_arguments(
    forward: Callable[..., Any], name: str, arguments: tuple[tuple[Any, ...], dict[str, Any]]
) -> None:
    """Raise GraphError if a forward method does not accept the arguments."""
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
