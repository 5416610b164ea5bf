"""Dotted names of modules, as in the model's code."""

import weakref
from collections.abc import Sequence
from typing import Any

_WRAPPER = "OptimizedModule"
"""Class in which `torch.compile` wraps a module as `_orig_mod`; paths omit both names."""


class ModulePaths:
    """Names of modules: their paths below the module that was called first.

    A member of a container is called by the container's owner, and a shared module has several
    paths. So the path is looked up among all modules of the root, if possible below the caller's
    path.

    Weak references to modules remove the names of dropped modules. There are no weak references to
    parameters, because torch cannot swap parameters that have them.
    """

    def __init__(self) -> None:
        self._paths: dict[int, list[str]] = {}  # Maps id(module) to its paths below every root.
        self._owners: dict[int, str] = {}  # Maps id(parameter) to the path of its module.
        self._roots: dict[str, int] = {}  # Number of roots of each class.
        self._alive: dict[int, weakref.ref[Any]] = {}  # Modules whose ids are in use.
        self._innermost: dict[tuple[int, ...], str] = {}  # Keyed by the ids of nested modules.

    def enter(self, module: Any, caller: str | None) -> str:
        """Return the path of a called module; `caller` is the path of the calling module."""
        known = self._paths.get(id(module), [])
        if caller is None:
            # A submodule called directly (by a checkpoint in the backward pass) keeps its path.
            return known[0] if known else self._add_root(module)
        below = [path for path in known if path.startswith(f"{caller}.")]
        # The fallbacks are for a parent that its child calls, and for a module outside the root.
        return (below or known or [f"{caller}.{type(module).__name__}"])[0]

    def innermost(self, modules: Sequence[Any]) -> str:
        """Return the path of the innermost of these nested modules, or "" if there are none."""
        calls = tuple(map(id, modules))
        known = self._innermost.get(calls)
        if known is not None:
            return known
        path: str | None = None
        for module in modules:
            path = self.enter(module, path)
            self._watch(module)
        return self._innermost.setdefault(calls, path or "")

    def owner(self, parameter: Any) -> str:
        """Return the path of the module that has the parameter, or "" if none does."""
        return self._owners.get(id(parameter), "")

    def _add_root(self, root: Any) -> str:
        name = type(root).__name__
        if name == _WRAPPER:
            name = type(getattr(root, "_orig_mod", root)).__name__
        self._roots[name] = count = self._roots.get(name, 0) + 1
        if count > 1:
            name = f"{name}#{count}"
        for path, module in root.named_modules(remove_duplicate=False):
            steps = [step for step in path.split(".") if step and step != "_orig_mod"]
            full = ".".join((name, *steps))
            self._watch(module)
            self._paths.setdefault(id(module), []).append(full)
            for parameter in module._parameters.values():
                if parameter is not None:
                    self._owners.setdefault(id(parameter), full)
        return name

    def _watch(self, module: Any) -> None:
        """Drop the names of a module and of its parameters when the module dies."""
        number = id(module)
        if number in self._alive:
            return
        paths, owners, alive = self._paths, self._owners, self._alive
        innermost = self._innermost
        owned = [id(one) for one in module._parameters.values() if one is not None]

        def died(_: Any) -> None:
            gone = paths.pop(number, ())
            alive.pop(number, None)
            innermost.clear()
            for one in owned:
                if owners.get(one) in gone:
                    del owners[one]

        alive[number] = weakref.ref(module, died)
