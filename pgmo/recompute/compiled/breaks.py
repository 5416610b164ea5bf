"""Why a forward pass is no single graph: the first break of Dynamo's, with the user's line."""

from typing import Any

from torch import fx

from pgmo.recompute.frozen.places import is_foreign, line


class Breaks:
    """Graph breaks of one capture.

    Attributes:
        reason: of the first break, with the line of the user's code; None where there is none.
    """

    def __init__(self) -> None:
        self.reason: str | None = None

    def clear(self) -> None:
        """Forget the breaks of an earlier capture."""
        self.reason = None

    def note(self, module: fx.GraphModule) -> None:
        """Note why Dynamo ended a graph.

        Args:
            module: the graph, as its backend is given it.
        """
        ended: Any = getattr(module, "compile_subgraph_reason", None)
        if self.reason is None and ended is not None and ended.graph_break:
            self.reason = _words(ended)


def _words(ended: Any) -> str:
    """Return the first line of Dynamo's explanation and the innermost line of the user's code."""
    lines = [one.strip() for one in str(ended.reason).splitlines() if one.strip()]
    text = lines[0].rstrip(".") if lines else "Dynamo does not say why"
    for place in reversed(ended.user_stack):
        if is_foreign(place.filename):
            return f"{text}, at {line(place.filename, place.lineno or 0)}"
    return text
