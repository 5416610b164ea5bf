"""Dotted names of modules, as a reader of the model's code would write them."""

import weakref
from collections.abc import Sequence
from typing import Any

_WRAPPER = "OptimizedModule"
"""What `torch.compile` makes of a module, which is its `_orig_mod`; no reader wrote either."""


class ModulePaths:
    """Names each module by the path that it has below the module that was called first.

    A member of a container is called by the container's owner, and a shared module has several
    paths, so the path is looked up among all of the root's modules and must lie below the caller's.

    Modules are watched by weak references: what the program drops dies, and its names with it.
    Parameters are not, since torch exchanges none that are referred to weakly.
    """

    def __init__(self) -> None:
        self._paths: dict[int, list[str]] = {}  # id(module) -> its paths below every root
        self._owners: dict[int, str] = {}  # id(parameter) -> path of the module that has it
        self._roots: dict[str, int] = {}  # how many roots of a class
        self._alive: dict[int, weakref.ref[Any]] = {}  # ids are valid while their modules live
        self._innermost: dict[tuple[int, ...], str] = {}  # by the ids of nested calls' modules

    def enter(self, module: Any, caller: str | None) -> str:
        """The path of a module that is called by the module at `caller`, None for no module."""
        known = self._paths.get(id(module), [])
        if caller is None:
            # A part called by itself (by a checkpoint in the backward pass) keeps its full name.
            return known[0] if known else self._add_root(module)
        below = [path for path in known if path.startswith(f"{caller}.")]
        # A parent that is called by its own child, or a module the root does not list.
        return (below or known or [f"{caller}.{type(module).__name__}"])[0]

    def innermost(self, modules: Sequence[Any]) -> str:
        """Return the path of the last of these modules, each called by the one before it.

        Returns:
            "" for no modules.
        """
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
        """The path of the module that has the parameter; "" when none does."""
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
        """Has the names of a module and of its parameters end with it."""
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
