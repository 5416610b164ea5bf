"""Values as they were: remembered so that a change is noticed, in place or by another object."""

import enum
import functools
import random
import sys
import types
from collections import deque
from typing import Any

import torch

MISSING = object()
"""Stands for what is not there."""

_ATOMS = (type(None), bool, int, complex, str, bytes, enum.Enum, range, slice, type(...))
_NAMES = (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size)
MOST = 4096
"""Entries of a container that are looked at; of larger ones only the size is."""


def is_plain(value: object) -> bool:
    """Whether a value is a number, a word, or a container, which may hold anything."""
    kinds = (*_ATOMS, *_NAMES, float, list, tuple, deque, dict, set, frozenset)
    return isinstance(value, kinds) or is_array(value)


def is_array(value: object) -> bool:
    """Whether a value is an array of NumPy's."""
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def remember(value: object, depth: int = 4) -> object:
    """What equals itself as long as a value stays the same.

    Numbers, words and containers are compared by what they are, generators of random numbers by
    their state, everything else by identity.

    Example:
        >>> steps = [1, 2]
        >>> before = remember(steps)
        >>> steps.append(3)
        >>> remember(steps) == before, remember(1) == remember(True)
        (False, False)
    """
    if isinstance(value, float):
        return (float, repr(value))  # so that nan is itself
    if isinstance(value, slice):
        return (slice, repr(value))
    if isinstance(value, (*_ATOMS, *_NAMES)):
        return (type(value), value)
    if isinstance(value, (list, tuple, deque, dict, set, frozenset)):
        if len(value) > MOST or depth == 0:
            return (type(value), len(value))
        if isinstance(value, dict):
            return (dict, [(key, remember(one, depth - 1)) for key, one in value.items()])
        if isinstance(value, (set, frozenset)):
            return (type(value), frozenset(value))
        return (type(value), [remember(one, depth - 1) for one in value])
    if is_array(value):
        return _array(value)
    if is_generator(value):
        return ("generator", _state(value))
    if isinstance(value, functools.partial):
        return _partial(value, depth)
    if isinstance(value, types.SimpleNamespace):
        return (types.SimpleNamespace, remember(vars(value), depth))
    if isinstance(value, types.MethodType):
        return ("method", id(value.__self__), id(value.__func__))
    return ("object", id(value))


def is_fixed(value: object) -> bool:
    """Whether the same object is always remembered in the same way."""
    holds = (list, tuple, deque, dict, set, functools.partial, types.SimpleNamespace)
    return not (isinstance(value, holds) or is_array(value) or is_generator(value))


def is_generator(value: object) -> bool:
    """Whether a value draws random numbers, of Python or of NumPy."""
    numpy: Any = sys.modules.get("numpy")
    return isinstance(value, random.Random) or (
        numpy is not None and isinstance(value, (numpy.random.Generator, numpy.random.RandomState))
    )


def _state(generator: Any) -> object:
    if isinstance(generator, random.Random):
        return generator.getstate()
    if hasattr(generator, "bit_generator"):
        return remember(generator.bit_generator.state)
    return remember(generator.get_state())


def _array(value: Any) -> object:
    few = value.size <= MOST and not value.dtype.hasobject
    return ("array", value.shape, str(value.dtype), value.tobytes() if few else b"")


def _partial(value: functools.partial[Any], depth: int) -> object:
    parts = (value.func, value.args, value.keywords)
    return ("partial", [remember(one, depth - 1) for one in parts]) if depth else ("partial",)
