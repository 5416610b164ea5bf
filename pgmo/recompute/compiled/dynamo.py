"""Settings of Dynamo under which a captured graph does what the plain model does.

Libraries take another way where they are told that they are being compiled: transformers leaves
out masks, and attention takes another kernel. That way is correct, but has other bits.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
import torch._dynamo as dynamo
from torch._dynamo.variables import torch as functions

KINDS = 64
"""Graphs that Dynamo keeps of one function; above it a call is refused."""

_CONFIG: dict[str, Any] = {
    "recompile_limit": KINDS,
    "accumulated_recompile_limit": 4 * KINDS,
    "fail_on_recompile_limit_hit": True,
}

_QUESTIONS = (
    "torch._dynamo.external_utils.is_compiling",
    "torch._utils.is_compiling",
    "torch.compiler.is_compiling",
    "torch.compiler.is_dynamo_compiling",
    "torch.compiler.is_exporting",
    "torch.cuda.is_current_stream_capturing",
    "torch.xpu.is_current_stream_capturing",
)
"""Functions by which a library asks whether it is being compiled or captured."""


@contextmanager
def as_plain_model() -> Iterator[None]:
    """Inside, Dynamo captures, and code that is captured does not learn of it."""
    answers = functions.tracing_state_functions

    def changed() -> dict[Callable[[], Any], bool | None]:
        return {**answers(), **dict.fromkeys(_asked(), False)}

    handlers = functions.TorchInGraphFunctionVariable._get_handlers()
    handler = handlers[torch.compiler.is_compiling]
    with (
        dynamo.config.patch(**_CONFIG),
        patch.object(functions, "tracing_state_functions", changed),
        patch.dict(handlers, dict.fromkeys(_asked(), handler)),
    ):
        yield


def _asked() -> list[Callable[[], Any]]:
    found = []
    for path in _QUESTIONS:
        holder: Any = torch
        for name in path.split(".")[1:]:
            holder = getattr(holder, name, None)
        if holder is not None:
            found.append(holder)
    return found
