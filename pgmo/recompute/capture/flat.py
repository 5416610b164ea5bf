"""A module's call with its nesting taken off: tensors in, a tuple of tensors out.

While it is traced it also writes into each node which submodule made it.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from pgmo.errors import GraphError
from pgmo.recompute.capture.absent import note_customs
from pgmo.recompute.capture.compat import Spec, flatten, hook_numbers, traced_graph, unflatten
from pgmo.recompute.capture.joint_graph import MODULE
from pgmo.recompute.capture.objects import opened
from pgmo.recompute.capture.rehearse import rehearse
from pgmo.recompute.capture.repeated.blocks import RepeatedBlocks
from pgmo.recompute.frozen.guard import Guard
from pgmo.recompute.frozen.modes import modes
from pgmo.recompute.frozen.reads import OPTIONS, is_of_torch
from pgmo.recompute.frozen.values import Answering, Observation, reading_lists

Forward = Callable[..., Any]

PLAIN = (
    *(type(None), bool, int, float, complex, str, bytes, slice, range, type(...), type, Enum),
    *(Tensor, torch.dtype, torch.device, torch.layout, torch.memory_format),
    *(FunctionType, BuiltinFunctionType),
)
"""What a call may have beside its tensors: two of them with one `repr` mean the same."""


def _is_plain(value: object) -> bool:
    return isinstance(value, PLAIN)


class FlatModule(nn.Module):
    """Calls a module's forward with tensors only; what else it was called with is fixed.

    Args:
        module: whose parameters, buffers and submodules are used.
        forward: its forward method.
        arguments: positional and keyword arguments of an example call.
    """

    def __init__(
        self, module: nn.Module, forward: Forward, arguments: tuple[tuple[Any, ...], dict[str, Any]]
    ) -> None:
        super().__init__()
        self.module = module
        self._forward = forward
        leaves, self._spec = flatten(arguments)
        _refuse_opaque(leaves, "is called with")
        for path, one in module.named_modules():
            if isinstance(one, nn.RNNBase) and one.training and one.dropout and one.num_layers > 1:
                raise GraphError(
                    f"the dropout inside of {path or type(one).__name__} draws other numbers when "
                    "it is captured; use one module a layer, with nn.Dropout between them"
                )
        self._fixed = [None if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        self._places = places(leaves)
        self.result: tuple[list[Any], Spec] | None = None
        self.guard = Guard(module)
        self.blocks = RepeatedBlocks(module, _is_plain)
        self._ties = _ties(module)
        self.observed: list[Observation] = []
        self.differentiable: tuple[bool, ...] = ()

    def observe(self, tensors: list[Tensor]) -> None:
        """Runs once as it is, to see which values of tensors are read: a capture assumes them.

        Raises:
            GraphError: that cannot be.
        """
        self.observed = rehearse(self.module, self._called, tensors)

    def _called(self, tensors: Sequence[Tensor]) -> Any:
        leaves = list(self._fixed)
        for place, number in self._places.items():
            leaves[place] = tensors[number]
        arguments, keywords = unflatten(leaves, self._spec)
        return self._forward(*arguments, **keywords)

    def named_modules(
        self, memo: set[nn.Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Module]]:
        """Each module by one name, also where AOTAutograd asks for all of them.

        It puts tensors without contents in the place of parameters, name by name, and what was
        there back. By two names of one module the second time would put back the first's.
        """
        yield from super().named_modules(memo, prefix, remove_duplicate=True)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The tensors in what the module's forward returns, then those with observed values."""
        kept: list[Tensor] = []
        _tie(self._ties)
        registered = _registered(self.module)
        traced, blocks = traced_graph() is not None, self.blocks
        with (
            _noting_modules(self.module),
            self.guard.watching(traced) as reads,
            blocks.standing_in(reads),
            self._answering(kept),
        ):
            returned = self._called(tensors)
        for name, tensor in _registered(self.module).items():
            if tensor is not registered.get(name):
                raise GraphError(
                    f"the forward pass puts another tensor in the place of {name}, which a "
                    "captured one cannot; write into it, as in self.mean.copy_(mean)"
                )
        found, spec = flatten(opened(returned, PLAIN))
        _refuse_opaque(found, "returns")
        self.result = ([None if isinstance(one, Tensor) else one for one in found], spec)
        note_customs([one for one in found if isinstance(one, Tensor)], mark_nodes)
        self.differentiable = tuple(one.requires_grad for one in found if isinstance(one, Tensor))
        self._tensor_places = [place for place, one in enumerate(found) if isinstance(one, Tensor)]
        return (*(one for one in found if isinstance(one, Tensor)), *kept)

    @contextmanager
    def _answering(self, kept: list[Tensor]) -> Iterator[None]:
        """Inside, what is read of tensors is what was observed."""
        if not self.observed:
            yield
            return
        with reading_lists(), Answering(self.observed) as answering:
            yield
        kept += answering.kept

    def nested(self, tensors: Any) -> Any:
        """What the module's forward returns, made of its tensors again."""
        assert self.result is not None
        leaves = list(self.result[0])
        results = tensors[: len(self._tensor_places)]
        for place, tensor in zip(self._tensor_places, results, strict=True):
            leaves[place] = tensor
        return unflatten(leaves, self.result[1])


def distinct(leaves: list[Any]) -> list[Tensor]:
    """The tensors of a call, each once: attention looks whether its query is its key."""
    return list({id(leaf): leaf for leaf in leaves if isinstance(leaf, Tensor)}.values())


def places(leaves: list[Any]) -> dict[int, int]:
    """Where tensors stand in a call, and which of the distinct ones that is."""
    numbers: dict[int, int] = {}
    return {
        place: numbers.setdefault(id(leaf), len(numbers))
        for place, leaf in enumerate(leaves)
        if isinstance(leaf, Tensor)
    }


def _ties(module: nn.Module) -> list[tuple[nn.Module, str, nn.Module, str]]:
    """The second and further names of parameters, each with the first one."""
    first: dict[int, tuple[nn.Module, str]] = {}
    found = []
    for one in module.modules():
        for name, parameter in one._parameters.items():
            if parameter is None:
                continue
            owner = first.setdefault(id(parameter), (one, name))
            if owner != (one, name):
                found.append((one, name, *owner))
    return found


def _tie(ties: list[tuple[nn.Module, str, nn.Module, str]]) -> None:
    """Makes all names of a parameter mean the same tensor while it is traced.

    AOTAutograd has an input for each name. A parameter's gradient is a sum that autograd begins
    with what comes first; in two parts it would have other bits.
    """
    for module, name, owner, first in ties:
        module._parameters[name] = owner._parameters[first]


def _registered(module: nn.Module) -> dict[str, Tensor]:
    return {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }


def _refuse_opaque(leaves: list[Any], verb: str) -> None:
    """A captured step knows no tensors inside of other objects, and no contents of arrays."""
    for leaf in leaves:
        if not isinstance(leaf, PLAIN):
            raise GraphError(
                f"the model {verb} a {type(leaf).__name__}, whose contents cannot be captured. "
                "Tensors may be alone or in tuples, lists, dictionaries and what else "
                "torch.utils._pytree knows; register the type there"
            )


@contextmanager
def _noting_modules(module: nn.Module) -> Iterator[None]:
    """Hooks on all submodules, for as long as a forward pass is traced."""
    if traced_graph() is None:
        yield
        return
    stack: list[str] = [""]
    seen, thread = [len_of_graph()], threading.get_ident()

    def note() -> None:
        seen[0] = mark_nodes(seen[0], MODULE, stack[-1])

    handles = []
    for path, one in module.named_modules():
        if not path:
            continue

        def enter(_module: nn.Module, _arguments: Any, path: str = path) -> None:
            if threading.get_ident() == thread:  # others may use the module, too
                note()
                stack.append(path)

        def leave(_module: nn.Module, _arguments: Any, _result: Any) -> None:
            if threading.get_ident() == thread:
                note()
                stack.pop()

        handles.append(one.register_forward_pre_hook(enter))
        handles.append(one.register_forward_hook(leave, always_call=True))
    try:
        yield
    finally:
        note()
        for handle in handles:
            handle.remove()


def len_of_graph() -> int:
    """Number of nodes in the graph that is being traced; 0 when none is."""
    graph = traced_graph()
    return 0 if graph is None else len(graph.nodes)


def mark_nodes(first: int, key: str, value: object) -> int:
    """Writes into the `meta` of the nodes added since there were `first`; returns how many are."""
    graph = traced_graph()
    if graph is None:
        return 0
    count = len(graph.nodes)
    for node, _ in zip(reversed(graph.nodes), range(count - first), strict=False):
        node.meta.setdefault(key, value)
    return count


def signature(module: nn.Module, tree: object) -> tuple[object, ...]:
    """What a captured call is good for: equal signatures can share one.

    Shapes, strides, types, devices and whether gradients are wanted of all tensors, parameters
    and buffers too, all other arguments, each submodule's mode, hooks and forward method of its own
    (as libraries put there), the options of PyTorch's own modules (a dropout's rate may follow a
    schedule), and the settings of PyTorch.
    """
    return (
        look_of_call(tree),
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


def look_of_call(tree: object) -> tuple[object, ...]:
    """What of a signature is of the arguments alone."""
    leaves, spec = flatten(tree)
    return str(spec), tuple(_look(leaf) for leaf in leaves), tuple(places(leaves).values())


def _look(leaf: object) -> object:
    if not isinstance(leaf, Tensor):
        return (type(leaf), repr(leaf))
    return (leaf.stride(), leaf.requires_grad, *_kind(leaf))


def _kind(tensor: Tensor) -> tuple[object, ...]:
    return (tensor.shape, tensor.dtype, tensor.device)


def _options(module: nn.Module) -> tuple[object, ...]:
    """Numbers and words of a module of PyTorch's; those of others may be anything, counters too."""
    if not is_of_torch(type(module)):
        return ()
    return tuple(one for one in vars(module).values() if isinstance(one, OPTIONS))
