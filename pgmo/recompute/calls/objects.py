"""Arguments and results that hold tensors in attributes, such as a cache of keys and values."""

from enum import Enum
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from pgmo.recompute.capture.compat import flatten

PLAIN = (
    *(type(None), bool, int, float, complex, str, bytes, slice, range, type(...), type, Enum),
    *(Tensor, torch.dtype, torch.device, torch.layout, torch.memory_format),
    *(FunctionType, BuiltinFunctionType),
)
"""Types whose objects are leaves. These leaves, except tensors, are compared by their `repr`."""

_DEPTH = 8
"""Maximum levels of nested objects. Deeper objects, as in a linked list or a cycle, are leaves."""

_WRITTEN_IN_PYTHON = 1 << 9
"""CPython's type flag Py_TPFLAGS_HEAPTYPE, which classes written in Python have."""


def flatten_objects(tree: object, depth: int = _DEPTH) -> tuple[list[Any], object]:
    """Return a tree's leaves, also those in attributes of objects, and the tree's structure."""
    leaves, spec = flatten(tree)
    found: list[Any] = []
    structure: list[object] = [spec]
    for leaf in leaves:
        if depth == 0 or isinstance(leaf, PLAIN) or not is_flattenable(leaf):
            found.append(leaf)
            continue
        inside, of_leaf = flatten_objects(vars(leaf), depth - 1)
        structure += [len(found), type(leaf), of_leaf]
        found += inside
    return found, structure


def is_flattenable(leaf: Any) -> bool:
    """Return whether an object is no module, and has no contents outside of its `__dict__`."""
    kind = type(leaf)
    if isinstance(leaf, nn.Module) or not hasattr(leaf, "__dict__"):
        return False
    own = (one for one in kind.__mro__ if one is not object)
    return all(one.__flags__ & _WRITTEN_IN_PYTHON and not vars(one).get("__slots__") for one in own)
