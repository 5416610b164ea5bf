"""Packages that are called: `pgmo.fit("train.py")` beside `pgmo.fit.accumulate()`."""

import importlib
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, ClassVar

from pgmo.errors import OptionError


def refuse_removed(options: Iterable[str], removed: Mapping[str, str]) -> None:
    """Refuse options of the version before.

    Args:
        options: names that a call was given.
        removed: what to use instead, by name.

    Raises:
        OptionError: for the first one that was removed.
    """
    for option in options:
        if option in removed:
            raise OptionError(f"there is no option {option!r}; it was removed: {removed[option]}")


class CallablePackage(ModuleType):
    """The type of such a package. Its names are imported when they are first used."""

    _calls: ClassVar[tuple[str, str]]
    """Module and name of what a call of the package calls."""

    _homes: ClassVar[dict[str, str]]
    """Where the package's other names come from, by name."""

    _removed: ClassVar[dict[str, str]] = {}
    """What to use instead of options and names of the version before."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Calls what the package is for."""
        refuse_removed(options, self._removed)
        home, name = self._calls
        return getattr(importlib.import_module(home), name)(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        if name not in self._homes:
            hint = f"; it was removed: {self._removed[name]}" if name in self._removed else ""
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}{hint}")
        found = getattr(importlib.import_module(self._homes[name]), name)
        setattr(self, name, found)
        return found

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._homes})
