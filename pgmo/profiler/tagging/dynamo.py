"""Tells where compiled code begins and ends, so that whoever watches a program can step aside.

    eager code            watched
      compiled(x)  --->   withdraw()     guards are checked, frames traced, compiled code runs
                   <---   come_back()
    eager code            watched

TorchDynamo looks at more than the code that it compiles: it guards on hooks and traces them, and
refuses dispatch modes. What it finds there ends up in the number of graphs, in its breaks and so in
the last bits of the results. So nothing of what pgmo watches with is there while it looks.

Dynamo begins where a thread gets a callback for the frames that it evaluates, and ends where who
has set it puts back the one before. Both is done by `set_eval_frame`, which every compiled function
calls through its module's namespace. What a compiled function calls belongs to it, even where that
is never compiled.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Protocol

from pgmo.imports import after_import
from pgmo.user_warnings import warn_user

_EVAL_FRAME = "torch._dynamo.eval_frame"
_NEEDED = ("_maybe_set_eval_frame", "skip_code")
_UNKNOWN = -1
_COMPILED = "compile_wrapper"
"""What is called in the place of a compiled function; it had another name before 2.7."""


class Observer(Protocol):
    """Whoever watches a program. Called on the thread that it is about; must not raise."""

    def withdraw(self) -> None:
        """Compiled code is about to be looked for, on this thread."""

    def come_back(self) -> None:
        """This thread is out of it again."""

    def compiling(self) -> None:
        """Something is about to be compiled, perhaps within an operator of the backward pass."""


class _Thread(threading.local):
    """Whether a thread is in a call of compiled code, and since when."""

    outermost = 0  # id of a compiled function's frame, or of a context manager; 0 for none
    withdrawn: tuple["Observer", ...] = ()


_thread = _Thread()
_observers: list[Observer] = []
_wanted = False
_hidden = True


def hidden() -> bool:
    """Whether observers can step aside in time; false for a Dynamo that is not as expected.

    Then nothing may be watched that it could see.
    """
    return _hidden


def attend(observer: Observer) -> Callable[[], None]:
    """Tells the observer from now on.

    Args:
        observer: as long as it is told, it is kept alive.

    Returns:
        What to call, on any thread, to tell it no more.
    """
    global _wanted
    if not _wanted:
        _wanted = True
        after_import(_EVAL_FRAME, _attach)
    if hasattr(observer.compiling, "__code__"):
        skip(observer.compiling)
    _observers.append(observer)
    return lambda: _observers.remove(observer)


def skip(function: Any) -> None:
    """Has Dynamo not look at the function's own frame, wherever it is called.

    As long as a thread is in compiled code, Dynamo evaluates the frames of all that is called
    there. What the function calls is evaluated as if its caller had called it.

    Args:
        function: with a `__code__`, which it may share with others.
    """

    def skip_it() -> None:
        if hasattr(_dynamo(), "skip_code"):
            _dynamo().skip_code(function.__code__)

    after_import(_EVAL_FRAME, skip_it)


def inside() -> bool:
    """Whether this thread is in a call of compiled code, as far as is known."""
    return _thread.outermost != 0


def has_compiled() -> bool:
    """Whether this process may have code that inductor has made."""
    return "torch._inductor.codecache" in sys.modules


def _attach() -> None:
    """Wraps what Dynamo begins and ends with, for good: calls that have begun have to end."""
    global _hidden
    module = _dynamo()
    if not all(hasattr(module, name) for name in _NEEDED):
        _hidden = False
        return
    from torch._C._dynamo import eval_frame

    if eval_frame.get_eval_frame_callback() is not None:
        _thread.outermost = _UNKNOWN
    wrappers = []
    # Before 2.7 there is only the second one; afterwards they are one function by two names.
    for name, begins in (("set_eval_frame", True), ("_maybe_set_eval_frame", False)):
        if hasattr(module, name):
            wrappers.append(_setting(getattr(module, name), begins))
            setattr(module, name, wrappers[-1])
    for function in (*wrappers, _identity, _enter, _leave, tell, _compiling, inside):
        module.skip_code(function.__code__)


def _dynamo() -> Any:
    return sys.modules[_EVAL_FRAME]


def _setting(original: Callable[[Any], Any], begins: bool) -> Callable[[Any], Any]:
    """A function that sets a thread's callback: a function, False for no compilation, or None.

        prior = set_eval_frame(None)       a compiled function begins: it notes the dispatch keys
        _maybe_set_eval_frame(callback)    the program's code, under Dynamo
        set_eval_frame(None)
        _maybe_set_eval_frame(prior)       it ends

    Args:
        original: sets it, and returns the one before.
        begins: whether it is the first of these calls.
    """

    def set_eval_frame(callback: Any) -> Any:
        outermost, caller = _thread.outermost, sys._getframe(1)
        if not outermost:
            called = begins and _observers and caller.f_code.co_name == _COMPILED
            if called or not (callback is None or callback is False):
                _enter(caller)
            return original(callback)
        prior = original(callback)
        # Nothing else tells: a compilation that fails takes the callback along.
        if callback is None and not begins and outermost in (_UNKNOWN, _identity(caller)):
            _leave()
        return prior

    return set_eval_frame


def _identity(caller: FrameType) -> int:
    if caller.f_code.co_name in ("__enter__", "__exit__"):
        return id(caller.f_locals.get("self"))
    return id(caller)


def _enter(caller: FrameType) -> None:
    _thread.outermost = _identity(caller)
    if _observers:
        _await_compilation()
        _thread.withdrawn = tuple(_observers)
        for observer in _thread.withdrawn:
            tell(observer.withdraw)


def _leave() -> None:
    _thread.outermost = 0
    # Also those that were left meanwhile. Those that came meanwhile find themselves inside.
    back = dict.fromkeys((*_thread.withdrawn, *_observers))
    _thread.withdrawn = ()
    for observer in back:
        tell(observer.come_back)


@contextmanager
def watched() -> Iterator[None]:
    """Inside, observers watch code that compiled code calls, and at which Dynamo does not look."""
    outermost = _thread.outermost
    if not _thread.withdrawn:
        yield
        return
    _leave()
    try:
        yield
    finally:
        _thread.outermost, _thread.withdrawn = outermost, tuple(_observers)
        for observer in _thread.withdrawn:
            tell(observer.withdraw)


def tell(call: Callable[[], None]) -> None:
    """Calls an observer, whose failure must not become one of the program that it observes."""
    try:
        call()
    except Exception as error:
        warn_user(f"pgmo: watching compiled code failed: {error!r}")


def _await_compilation() -> None:
    """Asks to be told; again each time, as `torch._dynamo.reset()` forgets who has asked."""
    handler = sys.modules["torch._dynamo.callback"].callback_handler
    if _compiling not in handler.start_callbacks:
        handler.register_start_callback(_compiling)


def _compiling(*_: object) -> None:
    for observer in tuple(_observers):
        tell(observer.compiling)
