"""Callbacks before torch's operators, from csrc/adapters/torch_operators.hpp."""

import _thread
import ctypes
import time
from collections.abc import Callable

from pgmo import _core
from pgmo.allocator.build.library import AdapterLibrary
from pgmo.profiler.tagging.operators import OperatorAnswer

_BEGIN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int64)


class OperatorCalls:
    """Operators of observed threads; see `pgmo.profiler.tagging.operators.Operators`.

    Args:
        library: adapter that was compiled against the running torch.
    """

    def __init__(self, library: AdapterLibrary) -> None:
        self._library = library
        self._begin: Callable[[str, str, int], OperatorAnswer] | None = None
        self._called = _BEGIN(self._begins)

    def observe(self, begin: Callable[[str, str, int], OperatorAnswer]) -> None:
        """Report the calling thread's operators, and those of its backward passes, from now on."""
        self._begin = begin
        end = ctypes.c_void_p(_core.tag_end())
        self._library.ask("pgmo_observe_operators", self._called, end)

    def ignore(self) -> None:
        """Report nothing more. Any thread may call this."""
        self._library.ask("pgmo_ignore_operators")
        self._begin = None

    def suspend(self, suspended: bool) -> None:
        """Report no operators of the calling thread until this is called with False."""
        self._library.ask("pgmo_suspend_operators", int(suspended))

    def _begins(self, name: bytes, overload: bytes, nodes: int) -> int:
        begin = self._begin
        try:
            if begin is not None:
                return begin(name.decode(), overload.decode(), nodes)
        except KeyboardInterrupt:
            # C++ has called this function, so no error may leave it.
            _thread.start_new_thread(_interrupt_soon, ())
        return OperatorAnswer.HIDDEN


def _interrupt_soon() -> None:
    """Repeat Ctrl-C when the main thread has returned to the program."""
    time.sleep(0.01)
    _thread.interrupt_main()
