"""Signatures of calls. Calls with equal signatures share a plan."""

import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from pgmo.recompute.calls.modes import modes
from pgmo.recompute.calls.objects import PLAIN, flatten_objects

if TYPE_CHECKING:
    from collections.abc import Iterable

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments of a call."""

_METHODS = (FunctionType, property, staticmethod, classmethod)


def distinct(leaves: list[Any]) -> list[Tensor]:
    """Return the distinct tensor objects among the leaves of a call.

    Identity matters: attention, for example, checks whether its query is its key.
    """
    return list({id(leaf): leaf for leaf in leaves if isinstance(leaf, Tensor)}.values())


def places(leaves: list[Any]) -> dict[int, int]:
    """Return a map from each tensor's index in `leaves` to its index in `distinct(leaves)`."""
    numbers: dict[int, int] = {}
    return {
        place: numbers.setdefault(id(leaf), len(numbers))
        for place, leaf in enumerate(leaves)
        if isinstance(leaf, Tensor)
    }


def signature(module: nn.Module, tree: object) -> tuple[object, ...]:
    """Return the key of a call.

    The key consists of the arguments (`argument_signature`), the training mode of each submodule,
    the identity, shape, dtype and device of parameters and buffers, `requires_grad` of parameters,
    and PyTorch's settings. Dynamo guards hooks and other attributes.
    """
    return (
        argument_signature(tree),
        tuple((id(one), one.training) for one in module.modules()),
        tuple((id(one), one.requires_grad, *_kind(one)) for one in module.parameters()),
        tuple((id(one), *_kind(one)) for one in module.buffers()),
        modes(),
    )


def argument_signature(tree: object) -> tuple[object, ...]:
    """Return the arguments' part of a signature.

    This part has the shape, strides, dtype, device and `requires_grad` of each tensor, the groups
    of arguments that are the same tensor, the types of other arguments, and the `repr` of arguments
    whose type is in `PLAIN`.
    """
    leaves, structure = flatten_objects(tree)
    return (
        str(structure),
        tuple(_leaf_signature(leaf) for leaf in leaves),
        tuple(places(leaves).values()),
    )


def methods(module: nn.Module) -> tuple[object, ...]:
    """Return the methods of the classes of a module and its submodules.

    Dynamo does not guard methods. Classes in `torch.nn.modules` contribute only `forward`.
    """
    classes = dict.fromkeys(type(one) for one in module.modules())
    found: list[object] = [module.forward]
    for kind in dict.fromkeys(kind for one in classes for kind in one.__mro__):
        own = vars(kind)
        values: Iterable[object] = own.values()
        if _is_of_torch(kind):
            # The original method, not the wrapper of `compiled/dynamo/settings.py`.
            values = (inspect.unwrap(own["forward"]),) if "forward" in own else ()
        found += [one for one in values if isinstance(one, _METHODS)]
    return tuple(found)


def _leaf_signature(leaf: object) -> object:
    if not isinstance(leaf, Tensor):  # Dynamo guards contents of objects not in `PLAIN`.
        return (type(leaf), repr(leaf) if isinstance(leaf, PLAIN) else "")
    return (leaf.stride(), leaf.requires_grad, *_kind(leaf))


def _kind(tensor: Tensor) -> tuple[object, ...]:
    return (tensor.shape, tensor.dtype, tensor.device)


def _is_of_torch(kind: type) -> bool:
    return kind.__module__.startswith("torch.nn.modules.")
