"""Graph breaks of a forward pass, with their reasons and lines of the user's code."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from torch._dynamo.symbolic_convert import InstructionTranslatorBase as Translator

from pgmo.recompute.calls.lines import line_of_dynamo


@contextmanager
def noting_graph_breaks() -> Iterator[list[str]]:
    """Run a block, and yield a list to which each graph break adds its reason and line.

    Graph breaks are also listed if Dynamo skips the whole function.
    """
    found: list[str] = []
    log = Translator.log_graph_break

    def noted(translator: Translator, options: Any, reason: str, exc: Any) -> None:
        found.append(_reason(exc))
        log(translator, options, reason, exc)

    with patch.object(Translator, "log_graph_break", noted):
        yield found


_READ = "the value of a tensor is read"
_CALLS = "a function is called that Dynamo cannot capture"

_REASONS = {
    "Unsupported Tensor.item() call": _READ,
    "Data dependent operator": _READ,
    "Data-dependent branching": "Python branches on the value of a tensor",
    "generic_jump": "Python branches on the value of a tensor",
    "Dynamic shape operator": "the size of a tensor depends on the values of another tensor",
    "Failed to trace builtin operator": _CALLS,
    "Attempted to call function marked as skipped": _CALLS,
    "Skip calling `torch.compiler.disable()`d function": "torch.compiler.disable() is in effect",
    "Call to `torch._dynamo.graph_break()`": "torch._dynamo.graph_break() is called",
    "A number changes from call to call": "a number changes from call to call",
}
"""Reasons for the user, by the beginning of Dynamo's explanation."""


def _reason(error: BaseException) -> str:
    """Return the reason of a graph break, with the innermost line of the user's code."""
    explanation = str(error).strip().partition("\n")[0].rstrip(".")
    known = (reason for start, reason in _REASONS.items() if explanation.startswith(start))
    unknown = f"Dynamo says: {explanation}" if explanation else "Dynamo gives no reason"
    text = next(known, unknown)
    at = line_of_dynamo(error)
    return f"{text}, at {at}" if at else text
