"""Calls a function when a module has been imported, by whoever and whenever."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
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


def rewrite_import(
    name: str,
    compile_it: Callable[[bytes, str, ModuleType], CodeType | None],
    call: Callable[[], object],
) -> None:
    """Runs other code than a module's own when it is imported, and calls `call` afterwards.

    Args:
        name: of a module that has not been imported yet.
        compile_it: makes the code of the source, its path and the module; None for the module's
            own. Not called for modules that have no source.
        call: what it raises, the import raises.
    """
    sys.meta_path.insert(0, _Finder(name, call, compile_it))


class _Finder(MetaPathFinder):
    """Finds one module as the others would, and goes when that is imported."""

    def __init__(self, name: str, call: Callable[[], object], compile_it: Any = None) -> None:
        self._name = name
        self._call = call
        self._compile = compile_it

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name or self not in sys.meta_path:
            return None
        spec = self._found_by_others(path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _CallingLoader(spec.loader, self, self._call, self._compile)
        return spec

    def _found_by_others(
        self, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        """What finders behind this one find.

        It stays among them: whoever looks for a module, as libraries do to see whether it is
        installed, does not import it yet.
        """
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find and find(self._name, path, target)
            if spec is not None:
                return spec
        return None


class _CallingLoader(Loader):
    """Loads as another loader does, leaves that one in the module, and makes the call once."""

    def __init__(
        self, loader: Any, finder: _Finder, call: Callable[[], object], compile_it: Any
    ) -> None:
        self._loader = loader
        self._finder = finder
        self._call = call
        self._compile = compile_it

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        first = self._finder in sys.meta_path
        if first:
            sys.meta_path.remove(self._finder)
        code = self._other_code(module)
        if code is None:
            self._loader.exec_module(module)
        else:
            exec(code, module.__dict__)
        if first:
            self._call()

    def _other_code(self, module: ModuleType) -> CodeType | None:
        path = getattr(module, "__file__", None)
        if self._compile is None or path is None or not hasattr(self._loader, "get_data"):
            return None
        if not path.endswith(".py"):
            return None
        made: CodeType | None = self._compile(self._loader.get_data(path), path, module)
        return made
