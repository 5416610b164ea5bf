"""Implementation of `pgmo run --step-on`: each call of one function is an iteration.

    server.app:predict                          a function of a module
    train:predict                               a function of the script train.py; also
                                                __main__:predict
    server.app:Model.answer                     a method
    transformers.GenerationMixin:generate       a method of a class that the module re-exports

If the named module defines the function, it is decorated in the source code, below all other
decorators. So a call through a reference that a decorator keeps, such as a server's route, is an
iteration, too. If another module defines the function, its name in the named module is replaced
after the import.
"""

import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any

from pgmo.errors import OptionError
from pgmo.imports import after_import, rewrite_import
from pgmo.runner.definitions import decorate, functions_of
from pgmo.serving.interception import Interceptor, intercepted

DECORATOR = "__pgmo_step__"
"""Name of the decorator in the namespace of a decorated module."""

_FORM = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class StepOn:
    """Finder of a function while the program runs. Calls of the function go through `around`.

    Args:
        target: name of the function, as in the table above.
        script: name of the program's own module.
        around: function that runs the found function and returns its result.

    Attributes:
        error: reason why the function cannot be watched; None if no reason is known.
        found: whether the function was found.

    Raises:
        OptionError: if the target has another form.
    """

    def __init__(self, target: str, script: str, around: Interceptor) -> None:
        if not _FORM.fullmatch(target):
            raise OptionError(
                f"--step-on {target}: write MODULE:FUNCTION or MODULE:CLASS.METHOD, as in "
                "server.app:predict"
            )
        self.target = target
        self.error: OptionError | None = None
        self.found = False
        self._module, _, self._name = target.partition(":")
        self._is_script = self._module in ("__main__", script)
        self._around = around

    def attach(self) -> None:
        """Start the search before the program runs; raise `OptionError` for an unknown module."""
        if self._is_script:
            return
        first, _, rest = self._module.partition(".")
        if first not in sys.modules and importlib.util.find_spec(first) is None:
            self._fail(f"there is no module {first} that the program could import")
        if rest:
            after_import(first, self._look_within)
        else:
            self._await(first, self._name)

    def compile_script(self, source: bytes, path: str) -> CodeType | None:
        """Compile the program with the function decorated, or raise `OptionError` if it is missing.

        The result is None if the target names another module.
        """
        if not self._is_script:
            return None
        code = decorate(source, path, self._name, DECORATOR)
        if code is None:
            self._missing(functions_of(source, path), path)
        sys.modules["__main__"].__dict__[DECORATOR] = self.decorate
        return code

    def decorate(self, function: Any) -> Any:
        """Return a wrapper that passes calls to `around`.

        Raises `OptionError` for a coroutine function, a generator, and anything but a function.
        """
        if isinstance(function, (staticmethod, classmethod)):
            return type(function)(self.decorate(function.__func__))
        if not inspect.isroutine(function):
            self._fail(f"it is not a function, but an object of type {type(function).__name__}")
        for what, is_such in _LATER.items():
            if is_such(function):
                self._fail(
                    f"it is {what}, and a call of it only begins its work; name the function "
                    "that does the work"
                )
        self.found = True
        return intercepted(function, self._around)

    # --- modules --------------------------------------------------------------------------------

    def _look_within(self) -> None:
        """Search in an imported package. The remaining parts of the name are modules or classes."""
        parts = self._module.split(".")
        for count in range(len(parts), 0, -1):
            name = ".".join(parts[:count])
            try:
                known = name in sys.modules or importlib.util.find_spec(name) is not None
            except (ImportError, ValueError):
                known = False
            if known:
                self._await(name, ".".join([*parts[count:], self._name]))
                return

    def _await(self, module: str, name: str) -> None:
        if module in sys.modules:
            self._set(module, name)
            return

        def compiled(source: bytes, path: str, made: ModuleType) -> CodeType | None:
            made.__dict__[DECORATOR] = self.decorate
            return decorate(source, path, name, DECORATOR)

        rewrite_import(module, compiled, lambda: self._set(module, name))

    def _set(self, module: str, name: str) -> None:
        """Replace the name in the module, unless the function was decorated in the source code."""
        if self.found:
            return
        owner: Any = sys.modules[module]
        *path, last = name.split(".")
        for at, part in enumerate([*path, last]):
            if not hasattr(owner, part):
                where = ".".join([module, *path[:at]])
                known = sorted(
                    one
                    for one in dir(owner)
                    if not one.startswith("_") and (at < len(path) or _is_routine(owner, one))
                )
                self._missing(known, where, part)
            if at < len(path):
                owner = getattr(owner, part)
        setattr(owner, last, self.decorate(inspect.getattr_static(owner, last)))

    # --- errors ---------------------------------------------------------------------------------

    def _missing(self, known: list[str], where: str, part: str = "") -> None:
        shown = ", ".join(known[:_MOST_SHOWN]) or "no public names"
        more = f" and {len(known) - _MOST_SHOWN} more" if len(known) > _MOST_SHOWN else ""
        self._fail(f"{where} has no {part or self._name}; it has {shown}{more}")

    def _fail(self, reason: str) -> None:
        self.error = OptionError(f"--step-on {self.target}: {reason}")
        raise self.error


_MOST_SHOWN = 20

_LATER: dict[str, Callable[[Any], bool]] = {
    "a coroutine function": inspect.iscoroutinefunction,
    "a generator": inspect.isgeneratorfunction,
    "an asynchronous generator": inspect.isasyncgenfunction,
}


def _is_routine(owner: Any, name: str) -> bool:
    try:
        return callable(getattr(owner, name))
    except Exception:  # modules may load their parts on access
        return False
