"""Backward passes and linear layers without the dispatch mode, which would change their requests.

Under a mode, PyTorch treats every tensor as a subclass. So it allocates a tensor for a sum of
gradients instead of adding in place. The same is true of the sum with the bias of a linear layer
whose input is not contiguous. The mode is disabled while autograd's engine runs. The mode is
enabled again for Python code that the engine calls and that may read values: functions of the
script, and recomputation.

Source: `can_accumulate_inplace` in torch/csrc/autograd/input_buffer.cpp, `linear` in
aten/src/ATen/native/Linear.cpp.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any

import torch
from torch.jit import _builtins
from torch.nn import functional

from pgmo.error_frames import clears_frames
from pgmo.imports import after_import
from pgmo.rehearsal.values import mode_stack

ContextFactory = Callable[[], AbstractContextManager[None]]

_PLAIN = (torch.Tensor, torch.nn.Parameter, type(None))


def keep_backward_plain(
    without_mode: ContextFactory, with_mode: ContextFactory, repeated: Callable[[], ContextFactory]
) -> None:
    """Disable the mode in backward passes, and enable it in the Python code that they call.

    Args:
        without_mode: returns a context without the mode.
        with_mode: returns a context with the mode.
        repeated: returns a function whose contexts make up the same values each time.
    """
    graph: Any = torch.autograd.graph
    run_engine = graph._engine_run_backward

    @clears_frames
    @wraps(run_engine)
    def run_plain(*args: Any, **kwargs: Any) -> Any:
        with without_mode():
            return run_engine(*args, **kwargs)

    modules: tuple[Any, ...] = (graph, torch.autograd)
    for module in modules:
        module._engine_run_backward = run_plain
    function: Any = torch.autograd.function.BackwardCFunction
    function.apply = _within(with_mode, function.apply)
    after_import("torch.utils.checkpoint", lambda: _hook_recomputation(with_mode, repeated))


def _hook_recomputation(with_mode: ContextFactory, repeated: Callable[[], ContextFactory]) -> None:
    from torch.utils import checkpoint

    hook: Any = checkpoint._recomputation_hook
    enter, leave = hook.__enter__, hook.__exit__

    # PyTorch enters `hook` around the recomputed function, on a thread of autograd's engine.
    def entered(self: Any) -> Any:
        self._pgmo_context = with_mode()
        self._pgmo_context.__enter__()
        return enter(self)

    def left(self: Any, *args: Any) -> Any:
        try:
            return leave(self, *args)
        finally:
            self._pgmo_context.__exit__(None, None, None)

    hook.__enter__, hook.__exit__ = entered, left
    original: Any = checkpoint.checkpoint

    @clears_frames
    @wraps(original)
    def checkpointed(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return original(_within(repeated(), function), *args, **kwargs)

    checkpoint.checkpoint = checkpointed


def _within(context: ContextFactory, function: Callable[..., Any]) -> Callable[..., Any]:
    @clears_frames
    @wraps(function, assigned=())
    def called(*args: Any, **kwargs: Any) -> Any:
        with context():
            return function(*args, **kwargs)

    return called


def keep_linear_plain(without_mode: ContextFactory) -> None:
    """Disable the mode in `torch.nn.functional.linear`, whose results stay unknown.

    The mode stays enabled if the script has modes or passes tensor subclasses. Modes and subclasses
    of the script cause the same requests, and their code may read values.

    Args:
        without_mode: returns a context without the mode.
    """
    original: Any = functional.linear

    @clears_frames
    @wraps(original)
    def linear(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or not _is_plain(*args, *kwargs.values()):
            return original(*args, **kwargs)
        with without_mode():
            return original(*args, **kwargs)

    # Pickles name the function in `_nn`, and torch passes this function to `__torch_function__`,
    # where a script compares it with `torch.nn.functional.linear`.
    modules: tuple[Any, ...] = (functional, torch._C._nn)
    for module in modules:
        module.linear = linear
    _builtins._register_builtin(linear, "aten::linear")


def _is_plain(*args: Any) -> bool:
    """Return whether PyTorch itself runs an operator, without code of the script."""
    return len(mode_stack.stack()) == 1 and all(type(one) in _PLAIN for one in args)
