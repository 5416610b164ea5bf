"""Torch dispatch mode that can be entered and left at any time, below the program's own modes.

    entered   [ user A ]                   ->  [ ours | user A ]
    left      [ ours | user A | user B ]   ->  [ user A | user B ]

Modes must be left in reverse order, because torch pops the top of the stack. A session enters and
leaves its mode at steps of the program, between which the program may enter and leave its own. So
the session's mode is inserted and removed below all of them.
"""

import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from pgmo.error_frames import clear_frames
from pgmo.locks import new_lock
from pgmo.profiler.tagging import backward_errors

Around = Callable[[Any, tuple[Any, ...], Callable[[], Any]], Any]

# Inactive modes that are still on a thread's stack because another thread left them. Only the
# stack's own thread can remove them. Until then they forward every operator.
_left: list[tuple[threading.Thread, Any]] = []
_left_lock = new_lock()


class _ThreadExitCleanup:
    """Finalizer that removes the modes from an ending thread while it may still run Python.

    Otherwise torch would release them when the operating system's thread ends. If the interpreter
    is shutting down by then, this aborts the process.
    """

    def __del__(self) -> None:
        if sys is None or sys.is_finalizing():
            return
        for mode in [one for one in _stack() if isinstance(one, _mode_class())]:
            _take_out(mode)


_here = threading.local()
"""Thread-local storage. Python drops it while the thread can still run Python code."""


class OperatorMode(AbstractContextManager["OperatorMode"]):
    """Mode that passes every operator of the entering thread to `around`. Leaving never raises.

    If another thread leaves it, the mode stays on the entering thread's stack without effect,
    until that thread enters or leaves the next mode.

    Args:
        around: called with each operator, its positional arguments and a function that runs it;
            returns the result.
    """

    def __init__(self, around: Around) -> None:
        self._around = around
        self._mode: Any = None
        self._owner = threading.current_thread()
        self._suspended: set[int] = set()  # Ids of threads.

    def __enter__(self) -> "OperatorMode":
        _take_out_left()
        self._owner = threading.current_thread()
        self._suspended.clear()
        _let_higher_order_operators_pass()
        backward_errors.attach()
        self._mode = _mode_class()(self._around)
        _put_in(self._mode)
        if not hasattr(_here, "cleanup"):
            _here.cleanup = _ThreadExitCleanup()
        return self

    def suspend(self) -> bool:
        """Remove the mode from the calling thread's stack until `restore`.

        Operators of other threads still reach `around`. A backward pass has the mode on the stacks
        of its own threads, too. Returns whether the mode was on the stack.
        """
        if self._mode is None or not _take_out(self._mode):
            return False
        self._suspended.add(threading.get_ident())
        return True

    def restore(self) -> bool:
        """Undo `suspend` on the same thread; return False if the mode has been left meanwhile."""
        self._suspended.discard(threading.get_ident())
        if self._mode is None:
            return False
        _put_in(self._mode)
        return True

    def __exit__(self, *_error: object) -> None:
        mode, self._mode = self._mode, None
        if mode is None:
            return
        mode.around = None
        if self._owner.ident not in self._suspended:
            with _left_lock:
                _left.append((self._owner, mode))
        _take_out_left()


def _take_out_left() -> None:
    here = threading.current_thread()
    with _left_lock:
        _left[:] = [
            (thread, mode)
            for thread, mode in _left
            if thread.is_alive() and not (thread is here and _take_out(mode))
        ]


def _put_in(mode: Any) -> None:
    # Modes with a key are torch's own and always lie below all others.
    users = [one for one in _stack() if getattr(one, "_mode_key", None) is None]
    _without(len(users), lambda: _dispatch()._push_mode(mode))


def _take_out(mode: Any) -> bool:
    stack = _stack()
    for at, one in enumerate(stack):
        if one is mode:
            _without(len(stack) - at - 1, _dispatch()._pop_mode)
            return True
    return False  # Inside an operator, torch has removed the modes temporarily.


def _without(above: int, change: Callable[[], object]) -> None:
    """Change the stack below its topmost `above` modes.

    Normally, entering and leaving modes also changes process-wide flags of torch. These become
    wrong if several threads do so alternately. pgmo's mode does not need the flags.
    """
    dispatch, back = _dispatch(), []
    try:
        for _ in range(above):
            back.append(dispatch._pop_mode())
        change()
    finally:
        for mode in reversed(back):
            dispatch._push_mode(mode)


def _stack() -> list[Any]:
    return list(_dispatch()._get_current_dispatch_mode_stack())


def _let_higher_order_operators_pass() -> None:
    """Register a rule that runs the operator: older torch refuses modes without one."""
    from torch._ops import HigherOrderOperator, _higher_order_ops

    mode = _mode_class()
    if "supports_higher_order_operators" in HigherOrderOperator.dispatch.__code__.co_names:
        return
    for operator in _higher_order_ops.values():

        def run(_mode: Any, *args: Any, _operator: Any = operator, **kwargs: Any) -> Any:
            return _operator(*args, **kwargs)

        operator.python_key_table.setdefault(mode, run)


def _dispatch() -> Any:
    from torch.utils import _python_dispatch

    return _python_dispatch


@cache
def _mode_class() -> Any:
    """Return the mode class, created here because torch is imported late."""
    from torch.utils._python_dispatch import TorchDispatchMode

    def dispatch(mode: Any, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            around = mode.around
            if around is None:
                return func(*args, **(kwargs or {}))
            return around(func, args, lambda: func(*args, **(kwargs or {})))
        except BaseException as error:
            clear_frames(error)
            del args, kwargs
            raise

    class OperatorDispatchMode(TorchDispatchMode):
        # Otherwise torch refuses to run flex_attention, cond and similar operators under the mode.
        supports_higher_order_operators = True

        @classmethod
        def ignore_compile_internals(cls) -> bool:
            return True  # Otherwise torch.compile fails under the mode or compiles differently.

        def __init__(self, around: Around) -> None:
            super().__init__()  # type: ignore[no-untyped-call]
            self.around: Around | None = around

    # Set the method outside of the class body. Inside it, torch would wrap the method in a call
    # that imports TorchDynamo, which costs seconds and 60 MiB in programs that compile nothing. The
    # wrapper only excludes the function from Dynamo; `dynamo.skip` does that if Dynamo is loaded.
    OperatorDispatchMode.__torch_dispatch__ = dispatch  # type: ignore[method-assign]
    return OperatorDispatchMode
