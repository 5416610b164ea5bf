"""Autograd nodes of compiled forward passes."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from pgmo.error_frames import clear_backward_frames
from pgmo.recompute.capture.compat import autograd_nodes
from pgmo.recompute.runtime import backward_errors


def compiled_context(results: Sequence[Tensor]) -> Any:
    """Return the autograd node of a compiled forward pass, and prepare it for its backward pass.

    `results` may be views of the pass's results. Returns None if autograd did not record the pass.
    """
    for node in autograd_nodes(one.grad_fn for one in results):
        if type(node).__name__ == "CompiledFunctionBackward":
            _let_run_twice(node)
            clear_backward_frames(type(node))
            backward_errors.attach()
            return node
    return None


def _let_run_twice(context: Any) -> None:
    """Allow `retain_graph` for a backward pass.

    AOTAutograd refuses `retain_graph`, because a compiler may reuse the memory of inputs. Compiled
    functions of pgmo do not reuse this memory.
    """
    metadata: Any = getattr(getattr(context, "_forward_cls", None), "metadata", None)
    if metadata is not None:
        metadata.bw_donated_idxs = []
