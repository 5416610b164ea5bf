"""Addresses and sizes of the storages of modules, optimizers and tensors."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pgmo.errors import OptionError
from pgmo.wrapped_optimizers import unwrapped


def listed(objects: object) -> list[Any]:
    """Return a flat list of the tensors, modules and optimizers in nested collections.

    An iterator such as `model.children()` yields its objects only once, but the list can be used
    twice. For other objects, raise `OptionError`.
    """
    import torch

    if isinstance(objects, torch.Tensor | torch.nn.Module):
        return [objects]
    if isinstance(objects, torch.optim.Optimizer):
        return [unwrapped(objects)]
    if isinstance(objects, Mapping):
        return listed(objects.values())
    if isinstance(objects, Iterable) and not isinstance(objects, str | bytes):
        return [one for inner in objects for one in listed(inner)]
    raise OptionError(
        f"{objects!r} cannot sleep: give tensors, modules or optimizers, or collections of them"
    )


def storages(objects: object, index: int) -> dict[int, int]:
    """Return the storages of objects on one CUDA device.

    Args:
        objects: tensors and their gradients; modules, for their parameters, gradients and buffers;
            optimizers, for their state; or collections of these.
        index: index of the device.

    Returns:
        Bytes of each storage by its address. Sparse and empty tensors are left out.
    """
    import torch

    found: dict[int, int] = {}
    for tensor in _tensors(objects):
        if tensor.device.type != "cuda" or tensor.device.index != index:
            continue
        if tensor.layout is not torch.strided:
            continue  # sparse gradients have no storage of their own
        storage = tensor.untyped_storage()
        if storage.nbytes():
            found[storage.data_ptr()] = storage.nbytes()
    return found


def bytes_within(blocks: Mapping[int, int], runs: Sequence[tuple[int, int]]) -> int:
    """Return the bytes of blocks that lie in runs of pages.

    Args:
        blocks: bytes of each block by its address.
        runs: address and bytes of each run, ordered by address.

    Example:
        >>> bytes_within({100: 50, 400: 10}, [(0, 120), (140, 100)])
        30
    """
    total, ends = 0, [begin + size for begin, size in runs]
    for address, size in blocks.items():
        at = bisect_right(ends, address)
        while at < len(runs) and runs[at][0] < address + size:
            total += min(address + size, ends[at]) - max(address, runs[at][0])
            at += 1
    return total


def _tensors(objects: object) -> Iterator[Any]:
    import torch

    for one in listed(objects):
        if isinstance(one, torch.Tensor):
            yield _local(one)
            if one.is_leaf and one.grad is not None:
                yield _local(one.grad)
        elif isinstance(one, torch.nn.Module):
            yield from _tensors([*one.parameters(), *one.buffers()])
        else:
            yield from _within(one.state.values())


def _within(state: object) -> Iterator[Any]:
    """Yield the tensors in an optimizer's state, which may hold other objects as well."""
    import torch

    if isinstance(state, torch.Tensor):
        yield _local(state)
    elif isinstance(state, Mapping):
        yield from _within(state.values())
    elif isinstance(state, Iterable) and not isinstance(state, str | bytes):
        for one in state:
            yield from _within(one)


def _local(tensor: Any) -> Any:
    """Return this rank's part of a distributed tensor. Other tensors are returned unchanged."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor
