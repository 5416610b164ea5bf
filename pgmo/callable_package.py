"""Callable packages, such as `pgmo.fit("train.py")` with `pgmo.fit.accumulate()`."""

import importlib
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, ClassVar

from pgmo.errors import OptionError


def refuse_removed(options: Iterable[str], removed: Mapping[str, str]) -> None:
    """Raise `OptionError` if an option was removed; the message has the replacement."""
    for option in options:
        if option in removed:
            raise OptionError(f"there is no option {option!r}; it was removed: {removed[option]}")


class CallablePackage(ModuleType):
    """Type of a callable package, whose names are imported on first use."""

    _calls: ClassVar[tuple[str, str]]
    """Module and name of the function that a call of the package runs."""

    _homes: ClassVar[dict[str, str]]
    """Module of each name that is imported on first use."""

    _removed: ClassVar[dict[str, str]] = {}
    """Replacement of each removed option or name."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Return the result of the main function; raise `OptionError` for a removed option."""
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
