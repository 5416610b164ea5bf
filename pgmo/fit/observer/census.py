"""Addresses of parameters, gradients and optimizer states, and the shapes of parameters."""

import gc
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

_LINEAR = ("Linear", "Conv1D", "NonDynamicallyQuantizableLinear")
"""Classes whose weight is a matrix that adapters and quantised formats replace."""


def gradients(optimizer: Any) -> list[int]:
    """Return the addresses of the gradients that the optimizer's step is about to use."""
    found = (one.grad for one in _parameters(optimizer) if one.grad is not None)
    return sorted(address for one in found for address in _addresses(one))


def census(optimizer: Any) -> dict[str, Any]:
    """Return the addresses and shapes of the process's modules and the optimizer.

    Returns:
        Plain values. `parameters` and `states`: sorted addresses of storages on the card.
        `shapes`: for each parameter its shape, bytes per element, whether it is trained, and
        whether it is the weight of a linear layer. `blocks`: one entry, the bytes of the largest
        module in a list of modules; none without a list. `outside`: bytes of parameters in no list.
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
    # Libraries neither quantise nor adapt a head that shares the weight of an embedding.
    linear -= {id(one.weight) for one in modules if type(one).__name__ == "Embedding"}
    states = [state for one in parameters for state in _tensors(optimizer.state.get(one))]
    lists = [one for one in modules if isinstance(one, nn.ModuleList | nn.Sequential)]
    lists = [one for one in lists if len(one) > 1]
    inside = {id(one) for found in lists for one in found.parameters()}
    return {
        "parameters": _all_addresses([*parameters, *buffers]),
        "states": _all_addresses(states),
        "shapes": [
            [list(one.shape), one.element_size(), id(one) in trained, id(one) in linear]
            for one in parameters
        ],
        "blocks": [max(map(largest_block, lists))] if lists else [],
        "outside": _bytes(one for one in parameters if id(one) not in inside),
    }


def _parameters(optimizer: Any) -> Iterator[Tensor]:
    for group in optimizer.param_groups:
        yield from (one for one in group["params"] if isinstance(one, Tensor))


def _modules() -> Iterator[nn.Module]:
    """Yield every module of the process. `isinstance` would evaluate the `__class__` of proxies."""
    for one in gc.get_objects():
        if issubclass(type(one), nn.Module):
            yield one


def largest_block(modules: Iterable[nn.Module | None]) -> int:
    """Return the bytes of the parameters of the largest module in a list."""
    # x_transformers puts None into lists.
    sizes = (_bytes(child.parameters()) for child in filter(None, modules))
    return max(sizes, default=0)


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(one.numel() * one.element_size() for one in tensors)


def _tensors(state: Any) -> list[Tensor]:
    values = state.values() if isinstance(state, dict) else ()
    return [one for one in values if isinstance(one, Tensor) and one.is_cuda]


def _all_addresses(tensors: Iterable[Tensor]) -> list[int]:
    return sorted({address for one in tensors for address in _addresses(one)})


def _addresses(tensor: Tensor) -> list[int]:
    """Return the addresses of a tensor's storage or of its parts; [] if it is not on a card."""
    inner = getattr(tensor, "__tensor_flatten__", None)
    if inner is not None:  # subclasses that wrap tensors, such as DTensor and quantised weights
        names, _ = inner()
        return [at for name in names for at in _addresses(getattr(tensor, name))]
    if not tensor.is_cuda or tensor.layout is not torch.strided:
        return []
    return [tensor.untyped_storage().data_ptr()]
