"""How a Python value looks, for another process: what `remember` is for this one.

0.5           ["float", "0.5"]
gelu          ["function", "torch.nn.functional", "gelu", "3f2a..."]     with its code
config        ["object", "transformers...", "LlamaConfig"]               what is read of it is
                                                                         compared by itself
"""

import enum
import functools
import hashlib
import types
from collections import deque
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from pgmo.recompute.frozen.remembered import MISSING, MOST, is_array, is_generator
from pgmo.recompute.kept.unfit import UnfitError

_WORDS = (type(None), bool, int, float, complex, str, bytes, range, slice, type(...))
_NAMES = (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size)
_DEPTH = 4  # of containers in each other, as for `remember`

_UNORDERED = {("diffusers.configuration_utils", "FrozenDict"): ("_use_default_values",)}
"""Entries of dictionaries whose lists the library makes of sets: names of options that were not
given, in another order in each process."""


def look(value: object, depth: int = _DEPTH) -> Any:
    """What equals itself as long as a value is the same, in any process; for JSON.

    Raises:
        UnfitError: it is a generator of random numbers.

    Example:
        >>> look((1, 2.0))
        ['tuple', ['int', '1'], ['float', '2.0']]
    """
    if value is MISSING:
        return ["missing"]
    if isinstance(value, enum.Enum):
        return ["enum", *_home(type(value)), value.name]
    if isinstance(value, (*_WORDS, *_NAMES)):
        return [type(value).__name__, repr(value)]
    if isinstance(value, dict):
        if len(value) > MOST or depth == 0:
            return ["dict", len(value)]
        unordered = _UNORDERED.get(_home(type(value)), ())
        return [
            "dict",
            *(
                [look(key, 0), look(_as_set(one) if key in unordered else one, depth - 1)]
                for key, one in value.items()
            ),
        ]
    if isinstance(value, (list, tuple, deque)):
        name = type(value).__name__
        if len(value) > MOST or depth == 0:
            return [name, len(value)]
        return [name, *(look(one, depth - 1) for one in value)]
    if isinstance(value, (set, frozenset)):
        if len(value) > MOST or depth == 0:
            return [type(value).__name__, len(value)]
        return [type(value).__name__, *sorted((look(one, depth - 1) for one in value), key=repr)]
    if is_generator(value):
        raise UnfitError("the forward pass holds a generator of random numbers")
    if is_array(value):
        array: Any = value
        content = "" if array.dtype.hasobject else hashlib.sha256(array.tobytes()).hexdigest()
        return ["array", list(array.shape), str(array.dtype), content]
    return _thing(value, depth)


def _as_set(one: Any) -> Any:
    return frozenset(one) if isinstance(one, list) and all(isinstance(w, str) for w in one) else one


def _thing(value: Any, depth: int) -> Any:
    if isinstance(value, functools.partial):
        parts = (value.func, value.args, value.keywords)
        return ["partial", *(look(one, max(0, depth - 1)) for one in parts)]
    if isinstance(value, types.SimpleNamespace):
        return ["namespace", look(vars(value), depth)]
    if isinstance(value, MethodType):
        return ["method", *_home(type(value.__self__)), look(value.__func__, depth)]
    if isinstance(value, FunctionType):
        return [
            *("function", value.__module__, value.__qualname__, digest(value.__code__)),
            look(value.__defaults__, 1),
            look(value.__kwdefaults__, 1),
        ]
    if isinstance(value, BuiltinFunctionType):
        return ["builtin", value.__module__, value.__qualname__]
    if isinstance(value, ModuleType):
        return ["module", value.__name__]
    if isinstance(value, type):
        return ["type", *_home(value)]
    return ["object", *_home(type(value))]


def _home(kind: type) -> tuple[str, str]:
    return kind.__module__, kind.__qualname__


@functools.cache
def digest(code: CodeType) -> str:
    """A digest of what code does, wherever it is written.

    Example:
        >>> digest((lambda: 1).__code__) == digest((lambda: 2).__code__)
        False
    """
    sum_ = hashlib.sha256(code.co_code)
    constants = [
        digest(one) if isinstance(one, CodeType) else repr(look(one)) for one in code.co_consts
    ]
    parts = (constants, code.co_names, code.co_varnames, code.co_freevars, code.co_flags)
    sum_.update(repr(parts).encode())
    return sum_.hexdigest()[:32]
