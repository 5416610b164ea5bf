"""Workspaces of operators: bytes that they allocate and free while they run.

A convolution, for example, packs its inputs. Fake tensors do not show workspaces, whose sizes
depend on the device, the library and the number of threads. So each operator of a step is run
alone, on tensors of its shapes.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from pgmo.recompute.capture.compat import (
    fakes,
    flatten,
    metadata,
    storage_key,
    unflatten,
    without_tracing,
)
from pgmo.recompute.capture.memory_use.costs import example_arguments
from pgmo.recompute.capture.memory_use.facts import once_for_copies
from pgmo.recompute.capture.memory_use.meter import Change, Meter, meter, peak_and_net

Signature = tuple[object, ...]
"""Key of an operator's measurement. Each key is measured at most once per process."""

_REPEATS = 2
"""Runs of each operator. Only the last run counts: in the first run, libraries allocate memory that
they keep, such as cuBLAS's workspace."""

_END = "end"  # Label of the mark after each run.


@dataclass(frozen=True, slots=True)
class OperatorMeasurement:
    """Measured workspace of an operator, and bytes that its results hold beyond their elements.

    A mean of squares, for example, may be a view into the storage of all squares.
    """

    workspace: int = 0
    held: int = 0


_known: dict[Signature, OperatorMeasurement] = {}


def measured(node: fx.Node) -> OperatorMeasurement:
    """Return the measurement of a node's operator; zeros if it was not measured."""
    return _known.get(signature(node), OperatorMeasurement())


@once_for_copies
def signature(node: fx.Node) -> Signature:
    """Return the key of a node: operator, metadata of its arguments, and number of threads."""
    threads = torch.get_num_threads()
    return str(node.target), _nested(example_arguments(node)), threads


def _nested(argument: object) -> object:
    if isinstance(argument, Tensor):
        return metadata(argument)
    if isinstance(argument, (tuple, list)):
        return (type(argument).__name__, *map(_nested, argument))
    if isinstance(argument, dict):
        return tuple((key, _nested(one)) for key, one in argument.items())
    return repr(argument)


def measure(nodes: Iterable[fx.Node], least: int = 1 << 16) -> int:
    """Measure the operators of nodes that have no measurement yet; return the number measured.

    Random generators are restored. Operators are skipped if they read and write fewer than `least`
    bytes in all, or cannot run alone.
    """
    todo: dict[Signature, fx.Node] = {}
    for node in nodes:
        if _moved(node) >= least:
            key = signature(node)
            if key not in _known:
                todo.setdefault(key, node)
    count = 0
    for device in dict.fromkeys(_device(node) for node in todo.values()):
        measuring = meter(device)
        if measuring is not None:
            ours = {key: node for key, node in todo.items() if _device(node) == device}
            count += _run_all(ours, device, measuring)
    return count


@once_for_copies
def _moved(node: fx.Node) -> int:
    """Return the bytes that an operator reads and writes; -1 if it cannot be measured."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return -1  # Operators of other libraries may fail on made-up values.
    if target._schema.is_mutable or not _owned(node.meta.get("val"), node):
        return -1
    tensors = fakes((example_arguments(node), node.meta.get("val")))
    return sum(one.untyped_storage().nbytes() for one in tensors)


def _run_all(todo: dict[Signature, fx.Node], device: torch.device, measuring: Meter) -> int:
    count = 0
    devices = [device] if device.type == "cuda" else []
    with without_tracing(), torch.no_grad(), torch.random.fork_rng(devices), measuring:
        for index, node in enumerate(todo.values()):
            # An operator that rejects made-up values stays unmeasured.
            with suppress(RuntimeError, IndexError, ValueError, NotImplementedError):
                _run(node, measuring, str(index))
    runs: dict[str, list[list[Change]]] = {}  # Changes of each run, by its label.
    run: list[Change] = []
    for label, change in measuring.changes:
        if label:
            run = []
            runs.setdefault(label, []).append(run)
        run.append((label, change))
    for index, (key, node) in enumerate(todo.items()):
        own = runs.get(str(index), [])
        if len(own) == _REPEATS:
            peak, net = peak_and_net(own[-1])
            holds = max(0, net - written(node))
            _known[key] = OperatorMeasurement(max(0, peak - written(node) - holds), holds)
            count += 1
    return count


def _run(node: fx.Node, measuring: Meter, label: str) -> None:
    assert callable(node.target)
    arguments, keywords = _real(example_arguments(node))
    for _ in range(_REPEATS):
        measuring.mark(label)
        result = node.target(*arguments, **keywords)
        measuring.mark(_END)
        del result


def _device(node: fx.Node) -> torch.device:
    return fakes((node.meta.get("val"), example_arguments(node)))[0].device


@once_for_copies
def written(node: fx.Node) -> int:
    """Return the bytes of the new storages of a node's results, rounded as the allocator does."""
    return sum(_allocated(one) for one in _owned(node.meta.get("val"), node))


def _allocated(tensor: Tensor) -> int:
    grain = 512 if tensor.device.type == "cuda" else 1
    return -(-tensor.untyped_storage().nbytes() // grain) * grain


def _owned(example: object, node: fx.Node) -> list[Tensor]:
    """Return one tensor for each storage of an example value that no argument uses."""
    given = {storage_key(one) for one in fakes(example_arguments(node))}
    found: dict[int, Tensor] = {}
    for one in fakes(example):
        key = storage_key(one)
        if key not in given:
            found.setdefault(key, one)
    return list(found.values())


def _real(arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> tuple[Any, Any]:
    leaves, spec = flatten(arguments)
    made: dict[tuple[object, ...], Tensor] = {}
    real = [_made(leaf, made) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    return unflatten(real, spec)  # type: ignore[no-any-return]


def _made(fake: Tensor, made: dict[tuple[object, ...], Tensor]) -> Tensor:
    key = metadata(fake)
    if key not in made:
        empty = torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device=fake.device)
        if fake.dtype.is_floating_point:
            empty.fill_(0.5)
        else:
            empty.zero_()
        made[key] = empty
    return made[key]
