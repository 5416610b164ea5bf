"""`pgmo run --step-on`: each call of one function of the program is an iteration.

    server.app:predict                          a function of a module
    train:predict                               of the script, train.py; also __main__:predict
    server.app:Model.answer                     a method
    transformers.GenerationMixin:generate       of a class, which the module only passes on

Where the function's definition is in the module that is named, it is decorated there, below all
decorators of its own: what these keep, as a server's routes do, is the one that is watched. Else
the name is set anew, once the module has been imported.
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
from pgmo.serving.disguise import Around, passed_on

DECORATOR = "__pgmo_step__"
"""The name by which decorated code finds it, in the module's namespace."""

_FORM = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class StepOn:
    """Finds the function while the program runs, and has its calls go through `around`.

    Args:
        target: as in the drawing above.
        script: the name of the program's own module.
        around: runs the function; returns what the caller gets.

    Attributes:
        error: why the function cannot be watched; None as long as nothing speaks against it.
        found: whether there is the function.

    Raises:
        OptionError: when the target is not of that form.
    """

    def __init__(self, target: str, script: str, around: Around) -> None:
        if not _FORM.fullmatch(target):
            raise OptionError(
                f"--step-on {target}: write MODULE:FUNCTION or MODULE:CLASS.METHOD, as "
                "server.app:predict"
            )
        self.target = target
        self.error: OptionError | None = None
        self.found = False
        self._module, _, self._name = target.partition(":")
        self._is_script = self._module in ("__main__", script)
        self._around = around

    def attach(self) -> None:
        """To be called when `sys.path` is the program's, before its first line.

        Raises:
            OptionError: when there is no such module.
        """
        if self._is_script:
            return
        first, _, rest = self._module.partition(".")
        if first not in sys.modules and importlib.util.find_spec(first) is None:
            self._fail(f"there is no module {first}; it is looked for where the program's are")
        if rest:
            after_import(first, self._look_within)
        else:
            self._await(first, self._name)

    def compile_script(self, source: bytes, path: str) -> CodeType | None:
        """The program's code with the function decorated; None where it is in another module.

        Raises:
            OptionError: when it defines no such function.
            SyntaxError: when it is no Python.
        """
        if not self._is_script:
            return None
        code = decorate(source, path, self._name, DECORATOR)
        if code is None:
            self._missing(functions_of(source, path), path)
        sys.modules["__main__"].__dict__[DECORATOR] = self.decorate
        return code

    def decorate(self, function: Any) -> Any:
        """Watches a function.

        Raises:
            OptionError: when its calls do not do its work.
        """
        if isinstance(function, (staticmethod, classmethod)):
            return type(function)(self.decorate(function.__func__))
        if not inspect.isroutine(function):
            self._fail(f"it is not a function, but an object of type {type(function).__name__}")
        for what, is_such in _LATER.items():
            if is_such(function):
                self._fail(
                    f"it is {what}, and a call of it only begins its work; name a function "
                    "that it calls and that does the work"
                )
        self.found = True
        return passed_on(function, self._around)

    # --- modules --------------------------------------------------------------------------------

    def _look_within(self) -> None:
        """The package is there: the rest of the name is a module in it, or a class."""
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
        """Watches what the module has by that name, unless it was decorated there."""
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
        shown = ", ".join(known[:_MOST_SHOWN]) or "nothing"
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
    except Exception:  # modules that load their parts when they are asked for them
        return False
