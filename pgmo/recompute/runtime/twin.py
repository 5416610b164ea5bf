"""Twin of a model: an object of a subclass with another forward method and the same `__dict__`.

A change of one model changes the other: `model.eval()`, `twin.temperature = 2`, `.to()`.
"""

import copy
from collections.abc import Callable
from typing import Any, TypeVar, cast

from torch import nn

M = TypeVar("M", bound=nn.Module)

_ORIGINAL = "_pgmo_origin"
"""Attribute of a twin's class: the original model."""


def original(model: M) -> M:
    """Return the model of a twin, or the given model if it is not a twin."""
    return cast("M", getattr(type(model), _ORIGINAL, model))


def twin(model: M, forward: Callable[..., Any], again: Callable[[M], M]) -> M:
    """Return a twin of a model.

    Args:
        model: a model that is not a twin.
        forward: the twin's forward method, called without `self`.
        again: picklable function, called with a copied or unpickled model; returns its twin.
    """
    base = type(model)

    def make_plain(_kind: type, *arguments: Any, **keywords: Any) -> nn.Module:
        """Return a plain model for `type(self)(...)` in the model's code."""
        return base(*arguments, **keywords)

    own = {
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
        "__new__": make_plain,
        "__reduce_ex__": lambda _self, _protocol: (again, (model,)),
        "__copy__": lambda _self: again(copy.copy(model)),
        "forward": _UnsharedAttribute(forward),
        "_compiled_call_impl": _UnsharedAttribute(None),
        _ORIGINAL: model,
    }
    made: M = object.__new__(type(base.__name__, (base,), own))
    object.__setattr__(made, "__dict__", vars(model))
    return made


class _UnsharedAttribute:
    """Attribute that a twin does not share with its model."""

    def __init__(self, value: object) -> None:
        self._first = self._value = value

    def __get__(self, instance: object, owner: type | None = None) -> object:
        return self._value

    def __set__(self, instance: object, value: object) -> None:
        self._value = value

    def __delete__(self, instance: object) -> None:
        self._value = self._first
