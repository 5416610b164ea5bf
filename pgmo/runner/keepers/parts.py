"""Parts of an object, with their places, found without running the program's code or properties.

module       parameters, buffers and gradients as one group each; other attributes one by one
optimizer    state as one group; parameters later, because a module gives them better names
function     variables of its closure, defaults, and attributes
tensor       attributes, hooks and gradient; its autograd graph with saved tensors, later
"""

import collections
import gc
import itertools
import sys
import time
import types
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pgmo.runner.keepers.place import Place, key_step
from pgmo.runner.keepers.tensors import attribute, gradient, is_tensor, saved_tensors

_LEFT_OUT = (
    *(type, property, staticmethod, types.ModuleType, types.CodeType, types.BuiltinFunctionType),
    *(types.GetSetDescriptorType, types.WrapperDescriptorType, types.MethodDescriptorType),
    types.FrameType,
)
"""Types of objects that keep no tensors alive, or from which the search starts anyway."""

_MOST_NODES = 20_000
"""Maximum number of autograd nodes to search in all, which bounds the time. The search skips
further nodes."""

_MOST_ELEMENTS = 100_000
"""Maximum number of elements of one list or dictionary to search, which bounds the time. The search
skips further elements."""

_GROUPS = {"_parameters": "parameters", "_buffers": "buffers"}
"""Attributes of a module whose tensors are reported as one group, with the group's name."""


class Part(NamedTuple):
    """Part of an object.

    Args:
        value: the part.
        place: its place.
        later: whether the part is searched after all other parts, because another path may give a
            better name.
    """

    value: object
    place: Place
    later: bool = False


def place_of(value: object, parent: Place, step: str, *, alone: bool = False) -> Place:
    """Return the place of a part, with the name of its type."""
    return Place(parent, step, type(value).__name__, alone=alone, splits=_splits(value))


def may_keep(value: object) -> bool:
    """Return whether an object may keep tensors alive. Most objects of a program cannot."""
    if not gc.is_tracked(value) or issubclass(type(value), _LEFT_OUT):
        return False
    if type(value) is types.FunctionType:
        return bool(value.__closure__ or value.__defaults__ or value.__kwdefaults__ or vars(value))
    return True


def parts(value: object, place: Place) -> Iterator[Part]:
    """Yield the parts of an object that may keep tensors alive."""
    kind = type(value)
    found: Iterable[Part]
    if is_tensor(value):
        found = _of_tensor(value, place)
    elif issubclass(kind, dict):
        found = _of_items(dict.items(value), place)  # type: ignore[arg-type]
    elif issubclass(kind, list):
        found = _of_elements(list.__iter__(value), place)  # type: ignore[arg-type]
    elif issubclass(kind, tuple):
        found = _of_elements(tuple.__iter__(value), place)  # type: ignore[arg-type]
    elif issubclass(kind, collections.deque):
        found = _of_elements(collections.deque.__iter__(value), place)  # type: ignore[arg-type]
    elif kind is types.FunctionType:
        found = _of_function(value, place)
    elif _is(value, "torch.nn", "Module"):
        found = _of_module(value, place)
    elif _is(value, "torch.optim", "Optimizer"):
        found = _of_optimizer(value, place)
    else:
        found = _of_object(value, place)
    yield from found


def _is(value: object, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and issubclass(type(value), kind)


def _splits(value: object) -> bool:
    kind = type(value)
    if is_tensor(value) or issubclass(kind, (dict, list, tuple, set, collections.deque)):
        return False
    return not _is(value, "torch.optim", "Optimizer")


def _of_items(items: Iterable[tuple[object, object]], place: Place) -> Iterator[Part]:
    some = list(itertools.islice(items, _MOST_ELEMENTS))
    for key, one in [(key, one) for key, one in some if may_keep(one)]:
        yield Part(one, place_of(one, place, key_step(key)))


def _of_elements(elements: Iterable[object], place: Place) -> Iterator[Part]:
    for number, one in enumerate(list(itertools.islice(elements, _MOST_ELEMENTS))):
        if may_keep(one):
            yield Part(one, place_of(one, place, f"[{number}]"))


def attributes_of(value: object) -> dict[str, object]:
    """Return an object's attributes; empty if they are in slots, or the object hides them.

    Proxies hide their attributes behind a property, which may create the proxied object.
    """
    owners = (vars(base)["__dict__"] for base in type(value).__mro__ if "__dict__" in vars(base))
    if type(next(owners, None)) not in (types.GetSetDescriptorType, types.MemberDescriptorType):
        return {}
    found = object.__getattribute__(value, "__dict__")
    return dict(found) if type(found) is dict else {}


def _of_object(value: object, place: Place) -> Iterator[Part]:
    """Yield the attributes by name, and then all other objects to which the object refers."""
    referents = gc.get_referents(value)
    if type(value) is types.TracebackType:  # Its frame keeps variables of an ended function.
        referents += gc.get_referents(value.tb_frame)
    held = [one for one in referents if may_keep(one)]
    if not held:
        return
    attributes = attributes_of(value)
    named = {id(one) for one in attributes.values()}
    yield from _of_attributes(attributes, place)
    for one in held:
        if id(one) not in named and not _is_attributes(one, attributes):
            yield Part(one, place)


def _is_attributes(value: object, attributes: dict[str, object]) -> bool:
    """Return whether a part is the dictionary of the object's attributes itself."""
    return (
        type(value) is dict
        and bool(attributes)
        and list(map(id, value)) == list(map(id, attributes))
    )


def _of_function(value: Any, place: Place) -> Iterator[Part]:
    function = value.__qualname__.replace(".<locals>", "")
    for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=False):
        try:
            one = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
        yield Part(one, place_of(one, place, f"{name} in the closure of {function}()", alone=True))
    for one in (value.__defaults__, value.__kwdefaults__):
        if one is not None:
            yield Part(one, place_of(one, place, f"the defaults of {function}()", alone=True))
    yield from _of_attributes(value.__dict__, place)


def _of_attributes(attributes: dict[str, object], place: Place) -> Iterator[Part]:
    for name, one in list(attributes.items()):
        if may_keep(one):
            yield Part(one, place_of(one, place, f".{name}"))


def _of_module(value: Any, place: Place) -> Iterator[Part]:
    """Yield the tensors and attributes of a module and of the modules in it."""
    groups = {name: Place(place, "", whole=text) for name, text in _GROUPS.items()}
    gradients = Place(place, "", whole="gradients")
    left: list[tuple[Any, str]] = [(value, "")]
    seen = {id(value)}
    while left:
        module, path = left.pop()
        attributes = attributes_of(module)
        for name, group in groups.items():
            for tensor in _dict(attributes.pop(name, None)).values():
                yield Part(tensor, group)
                if is_tensor(tensor):
                    yield Part(gradient(tensor), gradients)
        for name, inner in _dict(attributes.pop("_modules", None)).items():
            if id(inner) not in seen and _is(inner, "torch.nn", "Module"):
                seen.add(id(inner))
                left.append((inner, f"{path}.{name}"))
        for name, one in attributes.items():
            if may_keep(one):
                yield Part(one, place_of(one, place, f"{path}.{name}"))


def _dict(value: Any) -> dict[str, Any]:
    return dict(value) if issubclass(type(value), dict) else {}


def _of_optimizer(value: object, place: Place) -> Iterator[Part]:
    attributes = attributes_of(value)
    state = Place(place, "", whole="state")
    for of_parameter in _dict(attributes.pop("state", None)).values():
        for one in _dict(of_parameter).values() if type(of_parameter) is dict else (of_parameter,):
            yield Part(one, state)
    for name, one in attributes.items():
        yield Part(one, place_of(one, place, f".{name}"), later=True)


def _of_tensor(value: Any, place: Place) -> Iterator[Part]:
    yield from _of_attributes(attributes_of(value), place)
    hooks = attribute(value, "_backward_hooks")
    if hooks:
        yield Part(hooks, place_of(hooks, place, "._backward_hooks"))
    own = gradient(value)
    if own is not None:
        yield Part(own, Place(place, "", whole="gradient"))
    node = attribute(value, "grad_fn")
    if node is not None:
        yield Part(AutogradGraph(node), Place(place, "", "graph", whole="graph"), later=True)


class AutogradGraph(NamedTuple):
    """Autograd graph below one of its nodes."""

    node: Any

    def parts(self, place: Place, seen: dict[int, Any], deadline: float) -> Iterator[Part]:
        """Yield the saved tensors and the leaf tensors of a graph, and attributes of its contexts.

        Args:
            place: the graph's place.
            seen: nodes of earlier graphs by their ids, extended in place.
            deadline: time of `time.thread_time` after which no further node is searched.
        """
        left = [self.node]
        while left and len(seen) < _MOST_NODES and time.thread_time() < deadline:
            node = left.pop()
            if node is None or id(node) in seen:
                continue
            seen[id(node)] = node
            for tensor in saved_tensors(node):
                yield Part(tensor, place)
            variable = getattr(node, "variable", None)
            if is_tensor(variable):
                yield Part(variable, place)
            yield from _of_context(node, place)
            left.extend(following for following, _ in node.next_functions)


def _of_context(node: Any, place: Place) -> Iterator[Part]:
    """Yield the attributes that a custom function has set on its context."""
    for name, one in attributes_of(node).items():
        if may_keep(one):
            context = f"ctx.{name} of {function_of(node)}"
            yield Part(one, place_of(one, place, context, alone=True))


def function_of(context: object) -> str:
    """Return the name of the custom function that an autograd context belongs to."""
    return type(context).__name__.removesuffix("Backward")
