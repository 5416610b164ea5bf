"""Which blocks of a model are alike: same modules and shapes, and the same values read of Python.

    layers.0   LlamaDecoderLayer   9 parameters of the same shapes     self_attn.scaling  0.125
    layers.1   LlamaDecoderLayer   9 parameters of the same shapes     self_attn.scaling  0.125

What Python code did in one block it would do in another one that reads the same values: the same
assumption as that a captured step is good for later calls (`frozen`).
"""

from collections import Counter
from collections.abc import Iterator

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from pgmo.recompute.capture.compat import hook_numbers
from pgmo.recompute.frozen.reads import OPTIONS, Read, Reads, is_of_torch
from pgmo.recompute.frozen.remembered import remember

LEAST = 3
"""Blocks from which on one is traced for all."""

_LEAST_MODULES = 4  # of a block: less is traced sooner


def groups(model: nn.Module) -> Iterator[list[tuple[str, nn.Module]]]:
    """Groups of blocks that look alike, each block with its path; none lies within another."""
    tensors = Counter(id(one) for one in _every_tensor(model))
    stack = [("", model)]
    while stack:
        path, parent = stack.pop()
        found: dict[object, list[tuple[str, nn.Module]]] = {}
        for name, child in parent.named_children():
            key: object = _structure(child, tensors)
            place = f"{path}.{name}" if path else name
            found.setdefault(id(child) if key is None else key, []).append((place, child))
        for look, alike in found.items():
            if isinstance(look, tuple) and len(alike) >= LEAST:
                yield alike
            else:
                stack += alike


def _every_tensor(model: nn.Module) -> Iterator[Tensor]:
    for one in model.modules():
        yield from (two for two in one._parameters.values() if two is not None)
        yield from (two for two in one._buffers.values() if two is not None)


def given(block: nn.Module) -> list[Tensor]:
    """The parameters and buffers of a block, in the order of its modules."""
    return list(_every_tensor(block))


def _structure(block: nn.Module, tensors: Counter[int]) -> tuple[object, ...] | None:
    """Equal for blocks that look alike; None for one that has to be traced by itself."""
    rows: list[object] = []
    for path, one in block.named_modules():
        if (path and any(hook_numbers(one))) or "forward" in vars(one):
            return None
        if isinstance(one, _BatchNorm) and one.training and one.track_running_stats:
            return None  # it writes into buffers
        options = (
            tuple((name, two) for name, two in vars(one).items() if isinstance(two, OPTIONS))
            if is_of_torch(type(one))
            else one.training
        )
        rows.append((path, type(one), options, *map(_looks, (one._parameters, one._buffers))))
    if len(rows) < _LEAST_MODULES or any(tensors[id(one)] > 1 for one in given(block)):
        return None
    return tuple(rows)


def _looks(named: dict[str, Tensor | None]) -> tuple[object, ...]:
    return tuple(
        (name, None if one is None else (one.shape, one.dtype, one.device, one.requires_grad))
        for name, one in named.items()
    )


def owned(reads: Reads, block: nn.Module) -> list[tuple[str, Read]]:
    """What was read of the modules of a block so far, with their paths in it."""
    paths = {id(one): path for path, one in block.named_modules()}
    return [(paths[key[0]], read) for key, read in reads.found.items() if key[0] in paths]


def reads_alike(first: nn.Module, read: list[tuple[str, Read]], other: nn.Module) -> bool:
    """Whether another block has all that was read of the first one."""
    theirs, ours = dict(other.named_modules()), {id(one): p for p, one in first.named_modules()}
    for path, one in read:
        now = one.find(theirs[path], one.name)
        if isinstance(now, nn.Module) and id(one.value) in ours:
            if theirs.get(ours[id(one.value)]) is not now:
                return False
            continue
        now = getattr(now, "__func__", now)  # as it is noted, without what it is bound to
        if now is not one.value and remember(now) != remember(one.value):
            return False
    return True


def add_reads(reads: Reads, first: list[tuple[str, Read]], other: nn.Module) -> None:
    """Notes of another block what was read of the first one, as if it had run."""
    theirs = dict(other.named_modules())
    for path, one in first:
        owner = theirs[path]
        value = one.find(owner, one.name)
        key = (id(owner), one.name)
        if key not in reads.found:
            before = remember(value)
            value = getattr(value, "__func__", value)
            reads.found[key] = Read(owner, one.name, value, before, one.where, one.find)
