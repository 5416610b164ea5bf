"""Where an object is, counted from the model and from modules of Python, so as to find its like.

the configuration      model, its attribute `config`
a decorated function   model.layers.0, its class, `forward`, what its first cell holds
a table of a library   the global ACT2CLS of transformers.activations
"""

import functools
import inspect
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from types import FunctionType, MethodType, ModuleType
from typing import Any

from torch import Tensor, nn

from pgmo.recompute.frozen.code import of_names
from pgmo.recompute.frozen.remembered import MISSING
from pgmo.recompute.kept.unfit import UnfitError

Address = list[Any]

_MOST = 200_000  # objects that are looked at
_DEEP = 8  # steps from where it begins
_ENTRIES = 512  # of a container


class Addresses:
    """The addresses of objects, found by going outwards from a model and from global names.

    Args:
        model: from which most begin.
        names: dictionaries of global names of modules of Python.
        wanted: what has to be found.
    """

    def __init__(
        self, model: nn.Module, names: Iterable[dict[str, Any]], wanted: Iterable[object]
    ) -> None:
        self._known: dict[int, Address] = {}
        self._alive: list[object] = []
        missing = {id(one) for one in wanted}
        queue: deque[tuple[object, Address]] = deque()

        def add(found: object, address: Address) -> None:
            if id(found) not in self._known and len(self._known) < _MOST:
                self._known[id(found)] = address
                self._alive.append(found)
                missing.discard(id(found))
                queue.append((found, address))

        for path, one in model.named_modules():
            add(one, [["module", path]])
        for one in names:
            home = one.get("__name__")
            if isinstance(home, str) and vars(sys.modules.get(home, object)) is one:
                add(one, [["globals", home]])
        while queue and missing:
            found, address = queue.popleft()
            if len(address) < _DEEP:
                for step, near in _near(found):
                    add(near, [*address, step])

    def of(self, found: object) -> Address:
        """The address of an object.

        Raises:
            UnfitError: it has none.
        """
        address = self._known.get(id(found))
        if address is None:
            raise UnfitError(f"a {type(found).__name__} that no attribute of the model leads to")
        return address


def _near(one: Any) -> Iterator[tuple[Any, object]]:
    if isinstance(one, dict):
        for key in list(dict.keys(one))[:_ENTRIES]:
            if isinstance(key, str):
                yield ["entry", key], _entry(one, key)
    elif isinstance(one, (list, tuple)):
        yield from ((["item", index], value) for index, value in enumerate(one[:_ENTRIES]))
    elif isinstance(one, functools.partial):
        yield ["func"], one.func
    elif isinstance(one, MethodType):
        yield ["func"], one.__func__
    elif isinstance(one, FunctionType):
        for index, cell in enumerate(one.__closure__ or ()):
            yield ["cell", index], cell
        if hasattr(one, "__wrapped__"):
            yield ["wrapped"], one.__wrapped__
    elif type(one).__name__ == "cell":
        try:
            yield ["content"], one.cell_contents
        except ValueError:
            return
    elif isinstance(one, (staticmethod, classmethod)):
        yield ["func"], one.__func__
    elif isinstance(one, (property, Tensor, ModuleType)):
        return
    elif isinstance(one, type):
        if one.__module__.partition(".")[0] in ("torch", "builtins"):
            return
        for number, kind in enumerate(one.__mro__):
            if kind.__module__.partition(".")[0] not in ("torch", "builtins"):
                for name, value in list(vars(kind).items()):
                    yield ["member", number, name], value
    else:
        yield ["type"], type(one)
        inside = getattr(one, "__dict__", None)
        if isinstance(inside, dict):
            for name, value in list(inside.items()):
                if not isinstance(value, nn.Module) and name not in ("_parameters", "_modules"):
                    yield ["attribute", name], value


def _entry(one: dict[str, Any], key: str) -> object:
    # A table of somebody's own may make something when it is asked.
    return of_names(one, key) if type(one) is dict else dict.get(one, key, MISSING)


def found(model: nn.Module, address: Address) -> Any:
    """The object of an address.

    Raises:
        UnfitError: there is none.
    """
    try:
        (kind, name), *steps = address
        one: Any = model.get_submodule(name) if kind == "module" else vars(sys.modules[name])
        for step in steps:
            one = _next(one, step)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise UnfitError(f"nothing is at {address}") from error
    return one


def _next(one: Any, step: Any) -> Any:
    match step:
        case ["entry", key]:
            value = _entry(one, key)
            if value is MISSING:
                raise KeyError(key)
            return value
        case ["item", index]:
            return one[index]
        case ["func"]:
            return one.func if isinstance(one, functools.partial) else one.__func__
        case ["cell", index]:
            return one.__closure__[index]
        case ["content"]:
            return one.cell_contents
        case ["wrapped"]:
            return inspect.getattr_static(one, "__wrapped__")
        case ["member", number, name]:
            return vars(one.__mro__[number])[name]
        case ["type"]:
            return type(one)
        case ["attribute", name]:
            return vars(one)[name]
    raise ValueError(step)
