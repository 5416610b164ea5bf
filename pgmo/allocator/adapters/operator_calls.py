"""Callbacks before torch's operators, from csrc/adapters/torch_operators.hpp."""

import ctypes
import os
import threading
from collections.abc import Callable

from pgmo import _core
from pgmo.allocator.build.library import AdapterLibrary
from pgmo.profiler.tagging.operators import OperatorAnswer


class OperatorCalls:
    """Reports on operators; implements `pgmo.profiler.tagging.operators.Operators`.

    Args:
        library: adapter that was compiled against the running torch.
    """

    def __init__(self, library: AdapterLibrary) -> None:
        self._library = library

    def observe(self, begin: Callable[[str, str, int], OperatorAnswer]) -> None:
        """Report the operators of the calling thread and of its backward passes from now on.

        If another adapter reports operators, its reports stop. An error of `begin` on the main
        thread, for example by Ctrl-C, is raised after the operator.
        """
        global _observing
        _ignore()
        _observing = self
        _core.call_before_operators(begin, threading.main_thread().ident or 0)
        begins, ends = ctypes.c_void_p(_core.operator_begin()), ctypes.c_void_p(_core.tag_end())
        self._library.ask("pgmo_observe_operators", begins, ends)

    def ignore(self) -> None:
        """Stop the reports of this adapter. Any thread may call this."""
        global _observing
        if _observing is self:
            _observing = None
            self._library.ask("pgmo_ignore_operators")
            _core.call_before_operators(None, 0)

    def suspend(self, suspended: bool) -> None:
        """Report no operators of the calling thread until this is called with False."""
        self._library.ask("pgmo_suspend_operators", int(suspended))


_observing: OperatorCalls | None = None


def _ignore() -> None:
    if _observing is not None:
        _observing.ignore()


# Forked children, such as the workers of a data loader, have no sessions.
os.register_at_fork(after_in_child=_ignore)
