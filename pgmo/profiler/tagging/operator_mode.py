"""A torch dispatch mode that leaves the program's own modes where they are.

    entered   [ user A ]                   ->  [ ours | user A ]
    left      [ ours | user A | user B ]   ->  [ user A | user B ]

torch's modes pop whatever lies on top, so they must be left in the reverse order. A session is
entered and left at steps of the program, between which the program may enter and leave modes of its
own. Ours therefore goes below all of them, and is taken out from below them.
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

# Modes that are done, but lie on the stack of a thread that did not leave them: only that thread
# can take them out. Until it does they pass every operator on.
_left: list[tuple[threading.Thread, Any]] = []
_left_lock = new_lock()


class _LastWords:
    """Takes modes of ours off a thread that ends, as long as it may run Python.

    torch would let go of them when the system's thread ends. That is after Python has taken it for
    ended, so the interpreter may be on its way out, and the process would be aborted.
    """

    def __del__(self) -> None:
        if sys is None or sys.is_finalizing():
            return
        for mode in [one for one in _stack() if isinstance(one, _mode_class())]:
            _take_out(mode)


_here = threading.local()
"""Lives as long as its thread: what is in it ends there, before the thread is taken for ended."""


class OperatorMode(AbstractContextManager["OperatorMode"]):
    """Hands every operator of the entering thread to `around`; leaving it never raises.

    Any thread may leave it. From another one than that which entered, the mode stays on the stack
    without effect until the next one is entered or left on its own thread.

    Args:
        around: called with each operator, its positional arguments and a function that runs it;
            returns the result.
    """

    def __init__(self, around: Around) -> None:
        self._around = around
        self._mode: Any = None
        self._owner = threading.current_thread()
        self._lifted: set[int] = set()  # threads

    def __enter__(self) -> "OperatorMode":
        _take_out_left()
        self._owner = threading.current_thread()
        self._lifted.clear()
        _let_higher_order_operators_pass()
        backward_errors.attach()
        self._mode = _mode_class()(self._around)
        _put_in(self._mode)
        if not hasattr(_here, "last"):
            _here.last = _LastWords()
        return self

    def lift(self) -> bool:
        """Takes it off the calling thread's stack until it is put back; whether it lay there.

        Operators of other threads are handed on as before. While a backward pass runs, the mode
        lies on the stacks of its threads, too.
        """
        if self._mode is None or not _take_out(self._mode):
            return False
        self._lifted.add(threading.get_ident())
        return True

    def put_back(self) -> bool:
        """Undoes `lift` on the same thread; False where it has been left meanwhile."""
        self._lifted.discard(threading.get_ident())
        if self._mode is None:
            return False
        _put_in(self._mode)
        return True

    def __exit__(self, *_error: object) -> None:
        mode, self._mode = self._mode, None
        if mode is None:
            return
        mode.around = None
        if self._owner.ident not in self._lifted:
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
    # Modes with a key are torch's own. They lie below all others, at a place of their own.
    users = [one for one in _stack() if getattr(one, "_mode_key", None) is None]
    _without(len(users), lambda: _dispatch()._push_mode(mode))


def _take_out(mode: Any) -> bool:
    stack = _stack()
    for at, one in enumerate(stack):
        if one is mode:
            _without(len(stack) - at - 1, _dispatch()._pop_mode)
            return True
    return False  # inside of an operator, where torch has put its modes aside


def _without(above: int, change: Callable[[], object]) -> None:
    """Changes the stack as if so many modes, its topmost, were not there.

    The stack alone: entering and leaving modes also changes flags of torch's, which are the whole
    process's, and go wrong when threads do so in turns. Ours needs none.
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
    """Older versions of torch refuse modes without a rule; that of ours is to do nothing."""
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
    """A function, for torch loads late."""
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
        # Else torch refuses to run flex_attention, cond and their like beneath us.
        supports_higher_order_operators = True

        @classmethod
        def ignore_compile_internals(cls) -> bool:
            return True  # else torch.compile gives up beneath us: an error, or another program

        def __init__(self, around: Around) -> None:
            super().__init__()  # type: ignore[no-untyped-call]
            self.around: Around | None = around

    # Not in the class: torch wraps what it finds there in a call that imports TorchDynamo, which
    # takes seconds and 60 MiB in programs that compile nothing. It is there to keep Dynamo out of
    # the function, which `dynamo.skip` does where there is a Dynamo.
    OperatorDispatchMode.__torch_dispatch__ = dispatch  # type: ignore[method-assign]
    return OperatorDispatchMode
