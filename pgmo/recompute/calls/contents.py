"""Snapshot of a model's attributes, to undo the changes of a forward pass.

numbers, strings    the attribute is set again
lists, objects      keep their identity and get their contents back
random generators   get their state back
global variables    numbers and random generators, if the model's code names them
"""

import random
import sys
from collections import deque
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from pgmo.recompute.calls.lines import is_foreign
from pgmo.recompute.calls.objects import is_flattenable
from pgmo.recompute.calls.signature import methods

MOST = 4096
"""Maximum entries of a container that is restored. Changes of larger containers, such as a data
set, are not undone, because a copy would take too long."""

_MISSING = object()

_DEPTH = 4  # Maximum nesting of containers and objects that are restored.

_OF_MODULES = frozenset(vars(nn.Module()))
_HOOKS = tuple(name for name in _OF_MODULES if "_hooks" in name)


class AttributeRecord:
    """Snapshot of the attributes of a model's modules, with their contents.

    Attributes:
        tensors: tensors in attributes and global variables; parameters and buffers are excluded.
    """

    def __init__(self, model: nn.Module) -> None:
        self.tensors: list[Tensor] = []
        self._seen: set[int] = set()
        self._modules = [(one, _own(one)) for one in model.modules()]
        self._hooks = [(hooks, dict(hooks)) for one in model.modules() for hooks in _hooks_of(one)]
        self._restores = [
            undo
            for _, values in self._modules
            for value in values.values()
            for undo in self._restorers(value, _DEPTH)
        ]
        for space, name in _global_names(model):
            self._restores += self._global_restorers(space, name, space[name])

    def restore(self) -> None:
        """Restore attributes, their contents, and hooks."""
        for hooks, before in self._hooks:
            if hooks.keys() != before.keys():
                hooks.clear()
                hooks.update(before)
        self._restore(lambda _name, _before: False)

    def restore_values(self) -> None:
        """Restore attributes and contents, but keep hooks and flags that a first call sets up.

        New hooks stay, and also new attributes that are integers, Booleans or strings. If there are
        new hooks, changed Booleans stay, too.
        """
        installed = any(hooks.keys() != before.keys() for hooks, before in self._hooks)

        def stays(value: Any, before: Any) -> bool:
            if before is _MISSING:
                return isinstance(value, (bool, int, str))
            return installed and isinstance(value, bool) and isinstance(before, bool)

        self._restore(stays)

    def _restore(self, stays: Callable[[Any, Any], bool]) -> None:
        for module, before in self._modules:
            for name, value in _own(module).items():
                if stays(value, before.get(name, _MISSING)):
                    continue
                if name in before:
                    vars(module)[name] = before[name]
                else:
                    del vars(module)[name]
            for name in before.keys() - vars(module).keys():
                vars(module)[name] = before[name]
        for undo in self._restores:
            undo()

    def _restorers(self, value: Any, depth: int) -> Iterator[Callable[[], object]]:
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        if isinstance(value, Tensor):
            self.tensors.append(value)
        elif isinstance(value, random.Random):
            state = value.getstate()
            yield lambda: value.setstate(state)
        elif isinstance(value, torch.Generator):
            bits = value.get_state()
            yield lambda: value.set_state(bits)
        elif _is_of_numpy(value, "Generator"):
            numbers = value.bit_generator.state
            yield lambda: setattr(value.bit_generator, "state", numbers)
        elif _is_of_numpy(value, "RandomState"):
            numbers = value.get_state()
            yield lambda: value.set_state(numbers)
        elif isinstance(value, (list, deque, set, dict, tuple)):
            yield from self._container_restorers(value, depth)
        elif is_flattenable(value):
            yield from self._container_restorers(vars(value), depth)

    def _global_restorers(
        self, space: dict[str, Any], name: str, value: Any
    ) -> Iterator[Callable[[], object]]:
        # A library's first call may set up variables of other types, which are not restored.
        if type(value) in (int, float):
            yield lambda: space.update({name: value})
        else:
            yield from self._restorers(value, 0)

    def _container_restorers(self, value: Any, depth: int) -> Iterator[Callable[[], object]]:
        if depth == 0 or len(value) > MOST:
            return
        if not isinstance(value, tuple):
            before = value.copy()
            yield lambda: _fill(value, before)
        for one in value.values() if isinstance(value, dict) else value:
            yield from self._restorers(one, depth - 1)


def _fill(container: Any, contents: Any) -> None:
    if _entries(container) != _entries(contents):
        container.clear()
        add = container.extend if isinstance(container, (list, deque)) else container.update
        add(contents)


def _entries(container: Any) -> list[Any]:
    if isinstance(container, dict):
        return [(key, id(value)) for key, value in container.items()]
    return [id(one) for one in container]


def _global_names(model: nn.Module) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield namespace and name of each global variable that the user's code of a model names."""
    functions = [one for one in methods(model) if isinstance(one, FunctionType)]
    stack: list[tuple[CodeType, dict[str, Any]]]
    stack = [(one.__code__, one.__globals__) for one in functions]
    seen: set[CodeType] = set()
    while stack:
        code, space = stack.pop()
        if code in seen or not is_foreign(code.co_filename):
            continue
        seen.add(code)
        stack += [(one, space) for one in code.co_consts if isinstance(one, CodeType)]
        for name in code.co_names:
            if name in space:
                yield space, name
                value = space[name]
                if isinstance(value, FunctionType):
                    stack.append((value.__code__, value.__globals__))


def _own(module: nn.Module) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if name not in _OF_MODULES}


def _hooks_of(module: nn.Module) -> list[dict[int, Any]]:
    return [value for name in _HOOKS if isinstance(value := vars(module).get(name), dict)]


def _is_of_numpy(value: object, name: str) -> bool:
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, getattr(numpy.random, name))
