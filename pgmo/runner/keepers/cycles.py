"""Keepers of tensors that no variable reaches, mostly because of reference cycles.

ctx.result ──▶ tensor ──grad_fn──▶ ctx        forward() has stored its result on the context

To find the objects that refer to tensors, each level of references takes a pass over all Python
objects. So only a sample of the tensors of equal size is examined. If the whole sample has the same
keeper, this keeper counts as the keeper of all tensors of that size.
"""

import gc
import time
import types
from collections import deque
from collections.abc import Container
from typing import Any

from pgmo.runner.keepers.parts import AutogradGraph, attributes_of, function_of, parts
from pgmo.runner.keepers.place import Place
from pgmo.runner.keepers.tensors import StorageKey, is_tensor, python_tensors, storage_of

_MOST_SIZES = 4
"""Maximum number of different sizes to examine. Sizes with fewer bytes are left out."""

_LEAST_BYTES = 1 << 20
"""Minimum total bytes of the tensors of one size. Below it, the size is not examined."""

_SAMPLE = 64
"""Maximum number of tensors of one size to examine."""

_DEEPEST = 4
"""Maximum number of references from a tensor to a named object. Beyond it, no keeper is found."""

_MOST_REFERRERS = 64
"""Maximum number of containers to follow at each level. Further containers are ignored."""

_MOST_OF_CYCLE = 2_000
"""Maximum number of objects to visit in a check for a reference cycle. Larger cycles are missed."""

_CONTAINERS = (dict, list, tuple, set, frozenset, deque, types.CellType, types.MethodType)


def lost_tensors(found: Container[StorageKey], deadline: float) -> list[tuple[Any, Place]]:
    """Return the tensors outside of `found` whose keepers this search finds, with their keepers.

    The result is a list, because a suspended generator would itself refer to the tensors.

    Args:
        found: storages whose keepers are known.
        deadline: time of `time.thread_time` after which no further pass over all objects begins.
    """
    by_size: dict[tuple[str, int], list[Any]] = {}
    for tensor in python_tensors():
        storage = storage_of(tensor)
        if storage is not None and storage[0] not in found:
            by_size.setdefault((storage[0][0], storage[1]), []).append(tensor)
    ordered = sorted(by_size.items(), key=lambda one: -one[0][1] * len(one[1]))
    kept: list[tuple[Any, Place]] = []
    for (_, size), tensors in ordered[:_MOST_SIZES]:
        if size * len(tensors) < _LEAST_BYTES or time.thread_time() > deadline:
            break
        names = _owners(tensors, deadline)
        kept += [(one, Place(None, names[id(one)])) for one in tensors if id(one) in names]
    return kept


def _owners(tensors: list[Any], deadline: float) -> dict[int, str]:
    """Return the names of the objects that keep tensors of one size, by ids of the tensors."""
    sample = tensors[:_SAMPLE]
    names: dict[int, str] = {}
    reached = {id(one): {id(one)} for one in sample}  # by object, the tensors that it reaches
    level = sample
    ours = [tensors, sample, reached, names]
    for _ in range(_DEEPEST):
        if time.thread_time() > deadline:
            break
        above: list[Any] = []
        ours += [level, above]
        for owner in gc.get_referrers(*level):
            if id(owner) in reached or any(owner is one for one in ours):
                continue
            below: set[int] = set()
            for one in gc.get_referents(owner):
                below |= reached.get(id(one), set())
            name = _name(owner, reached)
            if name:
                for one in below:
                    names.setdefault(one, name)
            elif issubclass(type(owner), _CONTAINERS) and len(above) < _MOST_REFERRERS:
                above.append(owner)
                reached[id(owner)] = below
        level = above
        if not level or len(names) == len(sample):
            break
    for tensor in sample:
        if id(tensor) in names and not names[id(tensor)].endswith(_IN_CYCLE):
            _name_cycle(tensor, names, deadline)
    same = set(names.values())
    if len(same) == 1 and len(names) == len(sample):
        (name,) = same
        names.update((id(one), name) for one in tensors)
    return names


_IN_CYCLE = ", a reference cycle that only Python's garbage collector frees"


def _name(owner: Any, held: Container[int]) -> str:
    """Return the name of an object that keeps other objects alive; "" if it has no useful name.

    Args:
        owner: the object.
        held: ids of the kept objects.
    """
    kind = type(owner)
    if issubclass(kind, _CONTAINERS) or kind is types.ModuleType or issubclass(kind, type):
        return ""
    if kind is types.FunctionType:
        return f"the closure of {owner.__qualname__.replace('.<locals>', '')}()"
    if kind is types.FrameType:
        return f"a variable of {owner.f_code.co_qualname.replace('.<locals>', '')}()"
    if kind in (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType):
        return f"a variable of {owner.__qualname__.replace('.<locals>', '')}()"
    attributes = attributes_of(owner)
    names = [name for name, one in attributes.items() if id(one) in held]
    if hasattr(kind, "next_functions"):
        return f"ctx.{names[0]} of {function_of(owner)}" if names else ""
    if kind.__module__ == "builtins":
        return ""
    return f"{kind.__name__}.{names[0]}" if names else f"an object of {kind.__name__}"


def _name_cycle(tensor: Any, names: dict[int, str], deadline: float) -> None:
    """Add a remark to the name of a tensor's keeper if the tensor is in a reference cycle.

    Other tensors that the check visits get the same name.

    Args:
        tensor: the tensor.
        names: names by ids of tensors, changed in place.
        deadline: time of `time.thread_time` after which no further object is visited.
    """
    nowhere = Place(None, "")
    left: deque[Any] = deque([tensor])
    seen: dict[int, Any] = {}
    nodes: dict[int, Any] = {}
    is_cycle = False
    while left and len(seen) < _MOST_OF_CYCLE and time.thread_time() < deadline:
        value = left.popleft()
        if type(value) is AutogradGraph:
            found = [part.value for part in value.parts(nowhere, nodes, deadline)]
        else:
            seen[id(value)] = value
            found = [part.value for part in parts(value, nowhere)]
        is_cycle = is_cycle or any(one is tensor for one in found)
        left += [one for one in found if id(one) not in seen and gc.is_tracked(one)]
    if is_cycle:
        name = names[id(tensor)] + _IN_CYCLE
        names.update((key, name) for key, one in seen.items() if is_tensor(one))
