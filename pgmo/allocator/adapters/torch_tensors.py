"""Finds out whose memory a block is, and whether it may be moved.

Moving a storage moves every tensor that shares it, for they all reach their memory through it. What
must not exist is somebody who keeps the address itself. So a block may be moved only if every
holder of its storage is a tensor that Python sees (an array of another library, made through
DLPack, holds the storage without being one), if each of these tensors is an optimizer's state or a
gradient, to which nobody but its one owner refers (consumers of `__cuda_array_interface__` keep a
reference to the tensor that they were made from, which may be a `detach()` that nobody else holds),
and if it is freed in the usual way (a block that another process shares is not).
"""

import gc
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from typing import Any

from pgmo.allocator.adapters.storage import StorageMover, StorageView

_STATE_REFERENCES = 1
"""Besides our own: that of the dictionary that owns the tensor."""

_GRADIENT_USES, _OTHER_USES = 2, 1
"""Holders of a tensor: Python, and of a gradient the parameter, too."""


class Role(StrEnum):
    """What a block is for, as far as it matters here."""

    STATE = "state"  # of one of torch's own optimizers
    STRANGE_STATE = "strange state"  # of another library's optimizer
    GRADIENT = "gradient"
    OTHER = "other"


@dataclass(frozen=True)
class Owned:
    """A storage on the device, with what speaks against moving it.

    Args:
        view: the storage.
        role: what it is for.
        obstacle: why it may not be moved, in plain words; "" when it may.
        tensor: one of those that share it, which keeps it.

    Example:
        >>> Owned(StorageView(1, 4096, 512, 1, 1, True), Role.OTHER, "").obstacle
        ''
    """

    view: StorageView
    role: Role
    obstacle: str
    tensor: object = field(default=None, repr=False, compare=False)


def find_storages(mover: StorageMover, device: str) -> dict[int, Owned]:
    """Every storage on a device, such as "cuda:0", that a tensor in Python has, by its address.

    Raises:
        AdapterError: when the adapter is not installed.
    """
    import torch

    kinds = (torch.Tensor, torch.nn.Parameter)
    tensors, optimizers = [], []
    for thing in gc.get_objects():
        if type(thing) in kinds:
            tensors.append(thing)
        elif issubclass(type(thing), torch.optim.Optimizer):
            optimizers.append(thing)
    del thing
    there = torch.device(device)
    tensors = [one for one in tensors if one.device == there and one.layout is torch.strided]
    gradients = _gradients(tensors)
    known = {one._cdata for one in tensors}
    tensors += [one for one in gradients if one._cdata not in known]
    roles = {one._cdata: Role.GRADIENT for one in gradients} | _states(optimizers)
    del gradients
    by_storage: dict[int, list[tuple[StorageView, Role, int]]] = defaultdict(list)
    example = {}
    expected = {Role.GRADIENT: _gradient_references()}
    for tensor, references in zip(tensors, _references(tensors), strict=True):
        view = mover.view(tensor._cdata)
        if view is not None:
            role = roles.get(tensor._cdata, Role.OTHER)
            excess = references - expected.get(role, _STATE_REFERENCES)
            by_storage[view.storage].append((view, role, excess))
            example[view.storage] = tensor
    for storage, holders in by_storage.items():
        if _only_a_wrapper_more(mover, example[storage], holders[0][0], len(holders)):
            by_storage[storage] = [
                (replace(view, storage_uses=len(holders)), role, excess)
                for view, role, excess in holders
            ]
    return {
        holders[0][0].data: replace(_judge(holders), tensor=example[storage])
        for storage, holders in by_storage.items()
    }


def state_exists(device: str) -> bool:
    """Whether an optimizer has state on a device already: it was loaded, or trained before.

    Example:
        >>> state_exists("cuda:0")  # doctest: +SKIP
        False
    """
    import torch

    there = torch.device(device)
    return any(
        isinstance(value, torch.Tensor) and value.device == there
        for thing in gc.get_objects()
        if issubclass(type(thing), torch.optim.Optimizer)
        for state in list(thing.state.values())
        for value in (state.values() if isinstance(state, dict) else ())
    )


_OUR_POOLS = 1 << 62
"""The adapter's regions are in pools with numbers from here on; torch counts its own from one."""


def graphs_exist(device: int) -> bool:
    """Whether a captured graph is alive that may use memory of a device: it has addresses baked in.

    Also true where nobody can tell, as with `backend:cudaMallocAsync`.

    Args:
        device: number of the CUDA device.

    Example:
        >>> graphs_exist(0)  # doctest: +SKIP
        False
    """
    import torch

    if any(issubclass(type(thing), torch.cuda.CUDAGraph) for thing in gc.get_objects()):
        return True
    # Graphs of compiled code are no objects of Python's, but each has a pool.
    segments: list[dict[str, Any]]
    try:
        segments = torch.cuda.memory_snapshot()  # type: ignore[no-untyped-call]
    except RuntimeError:  # an allocator that does not know its own blocks
        return True
    pools = [one.get("segment_pool_id", (0, 0)) for one in segments if one["device"] == device]
    return any(tuple(pool) != (0, 0) and pool[1] < _OUR_POOLS for pool in pools)


def _gradients(tensors: Iterable[Any]) -> list[Any]:
    import torch

    found = [one.grad for one in tensors if one.is_leaf and one.requires_grad]
    return [one for one in found if one is not None and one.layout is torch.strided]


def _states(optimizers: list[Any]) -> dict[int, Role]:
    """The tensors of optimizers' states, by their `_cdata`."""
    import torch

    roles = {}
    for optimizer in optimizers:
        ours = type(optimizer).__module__.startswith("torch.optim.")
        # Made for captured graphs, which keep addresses.
        captured = any(group.get("capturable") for group in optimizer.param_groups)
        role = Role.STATE if ours and not captured else Role.STRANGE_STATE
        for state in list(optimizer.state.values()):
            for value in state.values() if isinstance(state, dict) else ():
                if type(value) is torch.Tensor:
                    roles[value._cdata] = role
    return roles


def _references(tensors: list[Any]) -> list[int]:
    """How many references there are to each, besides the list's."""
    probe = [object()]
    (own,) = [sys.getrefcount(one) for one in probe]
    return [sys.getrefcount(one) - own for one in tensors]


def _only_a_wrapper_more(
    mover: StorageMover, tensor: Any, before: StorageView, tensors: int
) -> bool:
    """Whether one of a storage's holders is a Python object to which nobody refers.

    `torch.save`, `copy.deepcopy` and others ask for `untyped_storage()`. Since torch 2.11 the
    object that they get stays with the storage, and holds it, when they have dropped it.

    Args:
        mover: looks at storages.
        tensor: one of the storage's.
        before: the storage.
        tensors: how many tensors it has.
    """
    if before.storage_uses != tensors + 1:
        return False
    wrappers = [tensor.untyped_storage()]
    now = mover.view(tensor._cdata)
    if now is None or now.storage_uses != before.storage_uses:
        return False  # this one was made just now, so the holder is somebody else
    return _references(wrappers)[0] <= _wrapper_references()


@cache
def _wrapper_references() -> int:
    """How many references the Python object of a storage has when nobody refers to it."""
    import torch

    tensor = torch.zeros(1, device="meta")
    tensor.untyped_storage()
    return _references([tensor.untyped_storage()])[0]


@cache
def _gradient_references() -> int:
    """How many references a gradient has that nobody refers to: that depends on the version."""
    import torch

    leaf = torch.zeros(1, device="meta", requires_grad=True)  # takes no memory
    leaf.grad = torch.zeros(1, device="meta")
    gradients = [leaf.grad]
    return _references(gradients)[0]


def _judge(holders: list[tuple[StorageView, Role, int]]) -> Owned:
    view = holders[0][0]
    roles = {role for _, role, _ in holders} - {Role.OTHER}
    main = roles.pop() if len(roles) == 1 else Role.OTHER
    obstacle = ""
    if not all(one.familiar for one, _, _ in holders):
        obstacle = "shared with another process or library"
    elif view.storage_uses != len(holders):
        obstacle = "held by something that is not a tensor of Python's"
    elif any(
        excess > 0 or one.tensor_uses > (_GRADIENT_USES if role is Role.GRADIENT else _OTHER_USES)
        for one, role, excess in holders
    ):
        obstacle = "referred to from several places"
    elif main is not Role.OTHER and any(role is Role.OTHER for _, role, _ in holders):
        obstacle = "shared with a tensor that somebody else holds"
    return Owned(view, main, obstacle)
