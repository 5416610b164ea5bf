"""Where the memory of modules, optimizers and tensors lies."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pgmo.errors import OptionError


def storages(objects: object, index: int) -> dict[int, int]:
    """The storages on one CUDA device that these objects hold.

    Args:
        objects: a tensor, a module (its parameters, their gradients and its buffers), an optimizer
            (its state), or several of them, in sequences and mappings.
        index: of the device.

    Returns:
        Bytes of each by its address.

    Raises:
        OptionError: when something else is among them.

    Example:
        >>> storages([model, optimizer], 0)  # doctest: +SKIP
        {140021893586944: 2097152}
    """
    found: dict[int, int] = {}
    for tensor in _tensors(objects):
        if tensor.device.type != "cuda" or tensor.device.index != index:
            continue
        storage = tensor.untyped_storage()
        if storage.nbytes():
            found[storage.data_ptr()] = storage.nbytes()
    return found


def _tensors(objects: object) -> Iterator[Any]:
    import torch

    if isinstance(objects, torch.Tensor):
        yield _local(objects)
        if objects.is_leaf and objects.grad is not None:
            yield _local(objects.grad)
    elif isinstance(objects, torch.nn.Module):
        for tensor in (*objects.parameters(), *objects.buffers()):
            yield from _tensors(tensor)
    elif isinstance(objects, torch.optim.Optimizer):
        yield from _within(objects.state.values())
    elif isinstance(objects, Mapping):
        for one in objects.values():
            yield from _tensors(one)
    elif isinstance(objects, Iterable) and not isinstance(objects, str | bytes):
        for one in objects:
            yield from _tensors(one)
    else:
        raise OptionError(
            f"of={objects!r}: what is to sleep is named by tensors, modules or optimizers"
        )


def _within(state: object) -> Iterator[Any]:
    """Tensors in what an optimizer keeps, among numbers and whatever else."""
    import torch

    if isinstance(state, torch.Tensor):
        yield _local(state)
    elif isinstance(state, Mapping):
        yield from _within(state.values())
    elif isinstance(state, Iterable) and not isinstance(state, str | bytes):
        for one in state:
            yield from _within(one)


def _local(tensor: Any) -> Any:
    """This rank's part of a distributed tensor."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor
