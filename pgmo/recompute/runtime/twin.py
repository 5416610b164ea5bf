"""A second object for the same model, with a forward method of its own.

    model ----+
              +--- one dictionary: parameters, buffers, submodules, training, all attributes
    twin -----+
      its class: the model's, with another `forward`

Whatever is done to one of them is done to both: `model.eval()`, `twin.temperature = 2`, `.to()`.
"""

import copy
from collections.abc import Callable
from typing import Any, TypeVar, cast

from torch import nn

M = TypeVar("M", bound=nn.Module)

ORIGIN = "_pgmo_origin"
"""Attribute of a twin's class: the model that it is the twin of."""


def original(model: M) -> M:
    """Return the model that a twin was made of; any other model is its own."""
    return cast("M", getattr(type(model), ORIGIN, model))


def twin(model: M, forward: Callable[..., Any], again: Callable[[M], M]) -> M:
    """Make a twin of a model.

    Args:
        model: a model that is no twin itself.
        forward: its forward method, called without the twin.
        again: makes a twin like it of another model, for copies and for files; can be pickled.
    """
    base = type(model)

    def make_plain(_kind: type, *arguments: Any, **keywords: Any) -> nn.Module:
        """`type(self)(...)` in code of the model's makes models, such as a slice of a sequence."""
        return base(*arguments, **keywords)

    own = {
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
        "__new__": make_plain,
        "__reduce_ex__": lambda _self, _protocol: (again, (model,)),
        "__copy__": lambda _self: again(copy.copy(model)),
        "forward": _Own(forward),
        "_compiled_call_impl": _Own(None),
        ORIGIN: model,
    }
    made: M = object.__new__(type(base.__name__, (base,), own))
    object.__setattr__(made, "__dict__", vars(model))
    return made


class _Own:
    """An attribute that a twin does not share; it may be set, as in other models."""

    def __init__(self, value: object) -> None:
        self._first = self._value = value

    def __get__(self, instance: object, owner: type | None = None) -> object:
        return self._value

    def __set__(self, instance: object, value: object) -> None:
        self._value = value

    def __delete__(self, instance: object) -> None:
        self._value = self._first
