"""Errors of captures for the user."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.exc import BackendCompilerFailed, TorchDynamoException

from pgmo.errors import BudgetError, GraphError, PgmoError
from pgmo.recompute.calls.lines import line_of_dynamo, line_of_error
from pgmo.recompute.calls.signature import Arguments

NOTHING = (
    "no captured result of the model needs gradients, so there is no backward pass to plan. Check "
    "requires_grad of the trained parameters, and that no result is detached"
)


ALL_UNPLANNED = (
    "no graph of the model can be planned: with recomputation, results might differ in bits. "
    "Warnings have the reasons"
)


class NothingToPlanError(GraphError):
    """Error for a call without differentiable results, or without a graph that can be planned."""


_FIT = "If the plain model fails, too, check the shapes of its inputs first"


def error_of_capture(error: Exception, name: str) -> PgmoError:
    """Return the error to raise for the user, without PyTorch's frames."""
    if isinstance(error, BackendCompilerFailed):
        error = error.inner_exception
    if isinstance(error, PgmoError):
        return error.with_traceback(None)  # Dozens of PyTorch's frames explain nothing.
    inner = _first_cause(error) if isinstance(error, TorchDynamoException) else error
    if isinstance(inner, torch.OutOfMemoryError):
        return BudgetError(
            f"the step of {name} cannot be captured: the card has too little memory for a dry run, "
            f"in which captured graphs save nothing for the backward pass. Give a smaller batch. "
            f"PyTorch says: {inner}"
        )
    where = line_of_dynamo(error) or line_of_error(error)
    at = f", at {where}" if where else ""
    message = str(inner).strip().partition("\n")[0].rstrip(".") or type(inner).__name__
    return GraphError(f"the step cannot be captured: {message}{at}. {_FIT}")


def _first_cause(error: BaseException) -> BaseException:
    following = error.__cause__ or error.__context__
    return error if following is None else _first_cause(following)


def too_many(name: str, count: int, reason: str) -> GraphError:
    """Return the error for a kind of call of which `count` steps captured graphs again."""
    return GraphError(
        f"{name} was captured again in {count} steps of the same kind, probably because its "
        f"forward pass reads values that change. The last guard of Dynamo that failed: {reason}. "
        "Pass a changing value as a tensor, keep it in a buffer, or read it outside of graphs "
        "(torch.compiler.disable)"
    )


def refuse_arguments(forward: Callable[..., Any], name: str, arguments: Arguments) -> None:
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
            f"{name}.forward cannot be called with these inputs: {error}. It takes ({names}). "
            "Example inputs are a tuple of positional arguments, or a dictionary of keyword "
            "arguments"
        ) from None
