"""Calls a function when a module has been imported, by whoever and whenever."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def after_import(name: str, call: Callable[[], object]) -> None:
    """Calls `call` once, after the module's code has run; at once if that was before.

    Costs nothing where the module is never imported.

    Args:
        name: the module's full name.
        call: must not raise.

    Example:
        >>> after_import("sys", lambda: print("was there already"))
        was there already
    """
    if name in sys.modules:
        importlib.import_module(name)  # waits while another thread is importing it
        call()
    else:
        sys.meta_path.insert(0, _Finder(name, call))


class _Finder(MetaPathFinder):
    """Finds one module as the others would, and takes itself away."""

    def __init__(self, name: str, call: Callable[[], object]) -> None:
        self._name = name
        self._call = call

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _CallingLoader(spec.loader, self._call)
        return spec


class _CallingLoader(Loader):
    """Loads as another loader does, leaves that one in the module, and makes the call."""

    def __init__(self, loader: Any, call: Callable[[], object]) -> None:
        self._loader = loader
        self._call = call

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._call()
