"""Setup for `torch.compile` and Triton. Code is compiled for the card; kernels do nothing."""

import os
from functools import wraps
from importlib.util import find_spec
from typing import Any

from pgmo.imports import after_import

_LEFT_OUT = (
    "torch.compile was left out, because Triton is missing: the script ran operator by operator, "
    "and compiled code needs different memory. Install triton next to torch to have it compiled"
)
_TIMED = (
    "max-autotune chooses kernels by their times, which rehearsals do not have: on the card it may "
    "choose other kernels, whose workspaces differ"
)


class Compilers:
    """Setup for code that the script compiles, and notes on it."""

    def __init__(self) -> None:
        self._has_triton = find_spec("triton") is not None
        self._used = False
        self._timed = False

    def install(self) -> None:
        """Disable Dynamo if Triton is missing, and watch `torch.compile`, before torch's import."""
        if not self._has_triton:
            os.environ["TORCHDYNAMO_DISABLE"] = "1"
        after_import("torch", self._watch_compile)

    def notes(self) -> list[str]:
        """Return the uncertainties of the result."""
        if self._used and not self._has_triton:
            return [_LEFT_OUT]
        return [_TIMED] if self._timed else []

    def _watch_compile(self) -> None:
        import torch

        original = torch.compile

        @wraps(original)
        def compile_(*args: Any, **kwargs: Any) -> Any:
            self._used = True
            options = kwargs.get("options") or {}
            mode = str(kwargs.get("mode") or "")
            self._timed |= mode.startswith("max-autotune") or bool(options.get("max_autotune"))
            return original(*args, **kwargs)

        torch.compile = compile_
