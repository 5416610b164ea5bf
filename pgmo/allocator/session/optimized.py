"""Decorated functions. Each call of the function is an iteration of a session."""

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any, Generic, ParamSpec, TypeVar

from pgmo.allocator.session.threads.boundary import exclusive
from pgmo.error_frames import clear_frames

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=Any)
"""Type of the session. `Session` imports this module, so this module cannot name it."""


class Optimized(Generic[P, R, S]):
    """Decorated function. Each call is an iteration of its session.

    Attributes:
        session: the session, for its summary and plan.

    Example:
        >>> @pgmo.optimize()  # doctest: +SKIP
        ... def train_step(batch): ...
        >>> for batch in loader:  # doctest: +SKIP
        ...     train_step(batch)
        >>> print(train_step.session.summary())  # doctest: +SKIP
        >>> train_step.close()  # doctest: +SKIP
    """

    def __init__(self, session: S, function: Callable[P, R]) -> None:
        self.session = session
        self._function = function
        self._opened = False
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run one iteration; before the first iteration, open the session."""
        if not self._opened:
            with exclusive():
                if not self._opened:  # another thread may have opened it meanwhile
                    self.session.__enter__()
                    self._opened = True
        try:
            with self.session.iteration():
                return self._function(*args, **kwargs)
        except BaseException as error:
            clear_frames(error)
            del args, kwargs
            raise

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Bind to an instance like a function, so that methods can be decorated."""
        return self if instance is None else MethodType(self, instance)

    def close(self) -> None:
        """Close the session; further calls on this thread raise `SessionError`."""
        self.session.close()
