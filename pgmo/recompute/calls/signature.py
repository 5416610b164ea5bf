"""Signatures of calls: calls with equal signatures can share a plan."""

import inspect
from enum import Enum
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from pgmo.recompute.calls.modes import modes
from pgmo.recompute.calls.objects import flatten_objects
from pgmo.recompute.capture.compat import flatten, hook_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable

PLAIN = (
    *(type(None), bool, int, float, complex, str, bytes, slice, range, type(...), type, Enum),
    *(Tensor, torch.dtype, torch.device, torch.layout, torch.memory_format),
    *(FunctionType, BuiltinFunctionType),
)
"""Types of arguments other than tensors that a call may have: values of one `repr` are equal."""

_METHODS = (FunctionType, property, staticmethod, classmethod)

_OPTIONS = (bool, int, float, str)
"""Types of the options of PyTorch's modules."""


def distinct(leaves: list[Any]) -> list[Tensor]:
    """Return the distinct tensors of a call: attention checks whether its query is its key."""
    return list({id(leaf): leaf for leaf in leaves if isinstance(leaf, Tensor)}.values())


def places(leaves: list[Any]) -> dict[int, int]:
    """Return by place of each tensor in a call its number among the distinct tensors."""
    numbers: dict[int, int] = {}
    return {
        place: numbers.setdefault(id(leaf), len(numbers))
        for place, leaf in enumerate(leaves)
        if isinstance(leaf, Tensor)
    }


def signature(module: nn.Module, tree: object) -> tuple[object, ...]:
    """Return the key of a call: calls with equal signatures can share a plan.

    It consists of shape, strides, type, device and `requires_grad` of all tensors, also parameters
    and buffers; all other arguments; mode, hooks and replaced forward method of each submodule;
    options of PyTorch's own modules, as a dropout's rate may follow a schedule; and the settings
    of PyTorch.
    """
    return (
        argument_signature(tree),
        tuple(
            (
                id(one),
                one.training,
                hook_numbers(one),
                _options(one),
                id(vars(one).get("forward")),
            )
            for one in module.modules()
        ),
        tuple((id(one), one.requires_grad, *_kind(one)) for one in module.parameters()),
        tuple((id(one), *_kind(one)) for one in module.buffers()),
        modes(),
    )


def argument_signature(tree: object) -> tuple[object, ...]:
    """Return the part of a signature that depends on the arguments alone."""
    leaves, spec = flatten(flatten_objects(tree, PLAIN))
    return (
        str(spec),
        tuple(_leaf_signature(leaf) for leaf in leaves),
        tuple(places(leaves).values()),
    )


def methods(module: nn.Module) -> tuple[object, ...]:
    """Return the methods of a module's and its submodules' classes, which Dynamo does not guard."""
    classes = dict.fromkeys(type(one) for one in module.modules())
    found: list[object] = [module.forward]
    for kind in dict.fromkeys(kind for one in classes for kind in one.__mro__):
        own = vars(kind)
        values: Iterable[object] = own.values()
        if _is_of_torch(kind):
            values = (inspect.unwrap(own["forward"]),) if "forward" in own else ()  # Not pgmo's.
        found += [one for one in values if isinstance(one, _METHODS)]
    return tuple(found)


def _leaf_signature(leaf: object) -> object:
    if not isinstance(leaf, Tensor):  # Dynamo's guards check other types.
        return (type(leaf), repr(leaf) if isinstance(leaf, PLAIN) else "")
    return (leaf.stride(), leaf.requires_grad, *_kind(leaf))


def _kind(tensor: Tensor) -> tuple[object, ...]:
    return (tensor.shape, tensor.dtype, tensor.device)


def _options(module: nn.Module) -> tuple[object, ...]:
    """Return numbers and words of PyTorch's own modules; in other modules they may be counters."""
    if not _is_of_torch(type(module)):
        return ()
    return tuple(one for one in vars(module).values() if isinstance(one, _OPTIONS))


def _is_of_torch(kind: type) -> bool:
    return kind.__module__.startswith("torch.nn.modules.")
