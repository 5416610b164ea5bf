"""Callable packages, such as `pgmo.fit("train.py")` with `pgmo.fit.accumulate()`."""

import importlib
from types import ModuleType
from typing import Any, ClassVar


class CallablePackage(ModuleType):
    """Type of a callable package, whose names are imported on first use."""

    _calls: ClassVar[tuple[str, str]]
    """Module and name of the function that a call of the package runs."""

    _homes: ClassVar[dict[str, str]]
    """Module of each name that is imported on first use."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Return the result of the main function."""
        home, name = self._calls
        return getattr(importlib.import_module(home), name)(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        if name not in self._homes:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(self._homes[name]), name)
        setattr(self, name, found)
        return found

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._homes})
