"""Which storages are parameters, gradients and states: told by their addresses."""

import gc
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

_LINEAR = ("Linear", "Conv1D", "NonDynamicallyQuantizableLinear")
"""Classes whose weight is a matrix that adapters and quantised formats replace."""


def gradients(optimizer: Any) -> list[int]:
    """Addresses of the gradients that a step is about to use."""
    found = (one.grad for one in _parameters(optimizer) if one.grad is not None)
    return sorted(address for one in found for address in _addresses(one))


def census(optimizer: Any) -> dict[str, Any]:
    """What the model and the optimizer hold.

    Args:
        optimizer: the one whose steps are counted.

    Returns:
        Plain values: `parameters` and `states`, sorted addresses of storages on the card;
        `optimizer`, its class; `shapes`, for each parameter its shape, bytes of an element, whether
        it is trained, and whether it is the weight of a linear layer; `blocks`, bytes of the
        largest module that lies in a list with others; `outside`, bytes of what is in none.
    """
    modules = list(_modules())
    held: dict[int, Tensor] = {id(one): one for one in _parameters(optimizer)}
    for module in modules:
        for one in module.parameters(recurse=False):
            held.setdefault(id(one), one)
    parameters = [one for one in held.values() if one.is_cuda]
    buffers = [one for module in modules for one in module.buffers(recurse=False) if one.is_cuda]
    trained = {id(one) for one in _parameters(optimizer)}
    linear = {id(one.weight) for one in modules if type(one).__name__ in _LINEAR}
    # A head that shares an embedding's weight is neither packed nor adapted by the usual libraries.
    linear -= {id(one.weight) for one in modules if type(one).__name__ == "Embedding"}
    states = [state for one in parameters for state in _tensors(optimizer.state.get(one))]
    return {
        "parameters": _all_addresses([*parameters, *buffers]),
        "states": _all_addresses(states),
        "optimizer": type(optimizer).__name__,
        "shapes": [
            [
                list(one.shape),
                one.element_size(),
                id(one) in trained,
                id(one) in linear,
            ]
            for one in parameters
        ],
        "blocks": sorted(_blocks(modules), reverse=True)[:1],
        "outside": _outside(modules, parameters),
    }


def _parameters(optimizer: Any) -> Iterator[Tensor]:
    for group in optimizer.param_groups:
        yield from (one for one in group["params"] if isinstance(one, Tensor))


def _modules() -> Iterator[nn.Module]:
    """Every module of the process. Types are asked, not objects, which may be proxies."""
    for one in gc.get_objects():
        if issubclass(type(one), nn.Module):
            yield one


def _blocks(modules: Iterable[nn.Module]) -> Iterator[int]:
    """Bytes of the parameters of each module that is one of several alike in a list."""
    for module in modules:
        if isinstance(module, nn.ModuleList | nn.Sequential) and len(module) > 1:
            for child in module:
                yield sum(one.numel() * one.element_size() for one in child.parameters())


def _outside(modules: Iterable[nn.Module], parameters: Iterable[Tensor]) -> int:
    """Bytes of the parameters that are in no module of a list of several."""
    lists = [one for one in modules if isinstance(one, nn.ModuleList | nn.Sequential)]
    inside = {id(one) for found in lists if len(found) > 1 for one in found.parameters()}
    return sum(one.numel() * one.element_size() for one in parameters if id(one) not in inside)


def _tensors(state: Any) -> list[Tensor]:
    values = state.values() if isinstance(state, dict) else ()
    return [one for one in values if isinstance(one, Tensor) and one.is_cuda]


def _all_addresses(tensors: Iterable[Tensor]) -> list[int]:
    return sorted({address for one in tensors for address in _addresses(one)})


def _addresses(tensor: Tensor) -> list[int]:
    """The address of its storage, or those of its parts; none where it is not on the card."""
    inner = getattr(tensor, "__tensor_flatten__", None)
    if inner is not None:  # subclasses that wrap others, such as DTensor and quantised weights
        names, _ = inner()
        return [at for name in names for at in _addresses(getattr(tensor, name))]
    if not tensor.is_cuda or tensor.layout is not torch.strided:
        return []
    return [tensor.untyped_storage().data_ptr()]
