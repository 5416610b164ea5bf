"""Objects that a forward pass returns with tensors inside, such as a cache of keys and values.

DynamicCache(layers=[Layer(keys, values), ...])    when captured: flattened to its attributes
                                                   at each call: built again of new tensors
"""

from typing import Any

from torch import nn
from torch.utils._pytree import register_pytree_node

from pgmo.recompute.capture.compat import flatten, unflatten

_DEPTH = 8  # Levels of nested objects; more than that is a chain, or a circle.


class FlattenedObject:
    """Object flattened to its class and attributes."""

    def __init__(self, kind: type, attributes: dict[str, Any]) -> None:
        self.kind, self.attributes = kind, attributes

    def rebuilt(self) -> Any:
        """Build an object of the same class with the same attributes."""
        made: Any = object.__new__(self.kind)
        vars(made).update(self.attributes)
        return made


def _flatten(one: FlattenedObject) -> tuple[list[Any], Any]:
    return list(one.attributes.values()), (one.kind, tuple(one.attributes))


def _unflatten(values: Any, context: Any) -> Any:
    kind, names = context
    return FlattenedObject(kind, dict(zip(names, values, strict=True))).rebuilt()


register_pytree_node(FlattenedObject, _flatten, _unflatten)


def flatten_objects(tree: object, plain: tuple[type, ...], depth: int = _DEPTH) -> Any:
    """Replace objects of Python classes, except `plain` ones, by `FlattenedObject`s in a tree."""
    leaves, spec = flatten(tree)
    if all(isinstance(leaf, plain) for leaf in leaves):
        return tree
    return unflatten([_flatten_object(leaf, plain, depth) for leaf in leaves], spec)


def _flatten_object(leaf: Any, plain: tuple[type, ...], depth: int) -> Any:
    if isinstance(leaf, plain) or depth == 0 or not is_flattenable(leaf):
        return leaf
    inside = {name: flatten_objects(value, plain, depth - 1) for name, value in vars(leaf).items()}
    return FlattenedObject(type(leaf), inside)


def is_flattenable(leaf: Any) -> bool:
    """Return whether an object consists only of its attributes."""
    kind = type(leaf)
    if isinstance(leaf, nn.Module) or not hasattr(leaf, "__dict__"):
        return False
    own = (one for one in kind.__mro__ if one is not object)
    return all(one.__flags__ & _WRITTEN_IN_PYTHON and not _slots(one) for one in own)


_WRITTEN_IN_PYTHON = 1 << 9
"""The flag of a type that CPython calls Py_TPFLAGS_HEAPTYPE."""


def _slots(kind: type) -> bool:
    return bool(vars(kind).get("__slots__"))
