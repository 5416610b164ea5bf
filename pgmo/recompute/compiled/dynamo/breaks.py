"""The first graph break of a forward pass, with its reason and the user's line."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from torch._dynamo.symbolic_convert import InstructionTranslatorBase as Translator

from pgmo.recompute.calls.lines import is_foreign, line


class GraphBreaks:
    """Graph breaks of one capture.

    Attributes:
        reason: the first break, with the line of the user's code; None where there is none.
    """

    def __init__(self) -> None:
        self.reason: str | None = None

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Record the first graph break in a block, also if Dynamo then leaves out a function."""
        self.reason = None
        log = Translator.log_graph_break

        def noted(translator: Translator, options: Any, reason: str, exc: Any) -> None:
            self.reason = self.reason or _words(str(exc), getattr(exc, "real_stack", None) or ())
            log(translator, options, reason, exc)

        with patch.object(Translator, "log_graph_break", noted):
            yield


_READ = "the value of a tensor is read"
_CALLS = "a function is called that Dynamo cannot capture"

_REASONS = {
    "Unsupported Tensor.item() call": _READ,
    "Data dependent operator": _READ,
    "Data-dependent branching": "Python decides by the value of a tensor",
    "generic_jump": "Python decides by the value of a tensor",
    "Dynamic shape operator": "the size of a tensor depends on values of another",
    "Failed to trace builtin operator": _CALLS,
    "Attempted to call function marked as skipped": _CALLS,
    "Skip calling `torch.compiler.disable()`d function": "a function is called that is disabled",
    "Call to `torch._dynamo.graph_break()`": "torch._dynamo.graph_break() is called",
}
"""Beginnings of Dynamo's explanations, and their meaning for the user."""


def _words(explanation: str, stack: Any) -> str:
    """Return the reason of a graph break, and the innermost line of the user's code."""
    said = explanation.strip().partition("\n")[0].rstrip(".")
    known = (reason for start, reason in _REASONS.items() if said.startswith(start))
    text = next(known, f"Dynamo says: {said or 'nothing'}")
    for place in reversed(stack):
        if is_foreign(place.filename):
            return f"{text}, at {line(place.filename, place.lineno or 0)}"
    return text
