"""The autograd nodes of compiled forward passes, which have no public name."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from pgmo.error_frames import clear_backward_frames
from pgmo.profiler.tagging import backward_errors


def compiled_context(results: Sequence[Tensor]) -> Any:
    """Return the autograd node of a compiled forward pass, whose results may be views."""
    stack = [one.grad_fn for one in results if one.grad_fn is not None]
    seen: set[Any] = set()
    while stack:
        function = stack.pop()
        if type(function).__name__ == "CompiledFunctionBackward":
            _let_run_twice(function)
            clear_backward_frames(type(function))
            backward_errors.attach()
            return function
        if function not in seen:
            seen.add(function)
            stack += [one for one, _ in function.next_functions if one is not None]
    return None


def _let_run_twice(context: Any) -> None:
    """Allow `retain_graph` for a backward pass: nothing here writes into its inputs.

    AOTAutograd refuses it because a compiler may have reused the memory of inputs.
    """
    metadata: Any = getattr(getattr(context, "_forward_cls", None), "metadata", None)
    if metadata is not None:
        metadata.bw_donated_idxs = []
