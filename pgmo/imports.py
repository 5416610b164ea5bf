"""Callbacks that run after a module has been imported."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any


def after_import(name: str, call: Callable[[], object]) -> None:
    """Call a function after a module's import, or now if the module is imported already.

    An error of the function fails the import.
    """
    if name in sys.modules:
        importlib.import_module(name)  # Waits while another thread imports the module.
        call()
    else:
        sys.meta_path.insert(0, _Finder(name, call))


def rewrite_import(
    name: str,
    compile_source: Callable[[bytes, str, ModuleType], CodeType | None],
    call: Callable[[], object],
) -> None:
    """Replace a module's code at its import, and call a function afterwards.

    Args:
        name: full name of a module that has not been imported yet.
        compile_source: returns the code to run, given the source, its path and the module; None
            keeps the module's own code. A module without source keeps its code.
        call: the callback; the import raises its errors.
    """
    sys.meta_path.insert(0, _Finder(name, call, compile_source))


class _Finder(MetaPathFinder):
    """Finder that wraps the loader of one module, until the code of this module runs."""

    def __init__(self, name: str, call: Callable[[], object], compile_source: Any = None) -> None:
        self._name = name
        self.call = call
        self.compile = compile_source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name or self not in sys.meta_path:
            return None
        spec = self._found_by_others(path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _CallingLoader(spec.loader, self)
        return spec

    def _found_by_others(
        self, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        """Return the spec from the first later finder that has one, or None.

        This finder stays installed, because libraries may search for a module without importing it.
        """
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find and find(self._name, path, target)
            if spec is not None:
                return spec
        return None


class _CallingLoader(Loader):
    """Wrapper around a loader, which runs the finder's callback after the first import."""

    def __init__(self, loader: Any, finder: _Finder) -> None:
        self._loader = loader
        self._finder = finder

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
        code = self._replacement_code(module)
        if code is None:
            self._loader.exec_module(module)
        else:
            exec(code, module.__dict__)
        if first:
            self._finder.call()

    def _replacement_code(self, module: ModuleType) -> CodeType | None:
        path = getattr(module, "__file__", None) or ""
        compile_source = self._finder.compile
        has_source = path.endswith(".py") and hasattr(self._loader, "get_data")
        if compile_source is None or not has_source:
            return None
        made: CodeType | None = compile_source(self._loader.get_data(path), path, module)
        return made
