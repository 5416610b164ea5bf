"""Functions on trees, tensors and nodes, and wrappers of private functions of PyTorch 2.11 and up.

    here                in PyTorch
    inductor            CustomPartitionerFn, compile_fx
    is_capturing        _C._get_dispatch_mode
    is_watched          is_in_any_mode_without_ignore_compile_internals
    without_tracing     _disable_current_modes
    is_profiling        _C._autograd._profiler_enabled
    memory_changes      kineto_results.events()

`torch.utils._pytree` flattens trees, because libraries register their container classes with it.
AOTAutograd passes more keywords to partition functions in each version, so pgmo's partition
functions accept any keyword. More private functions of PyTorch are used in `eager.py` (kernels),
`graphs.py` (graph modules), `runtime/backward_passes.py` (autograd's engine) and `compiled/dynamo`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.autograd.profiler import profile
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.fx.graph import CodeGen
from torch.utils import _python_dispatch, _pytree
from torch.utils._python_dispatch import _disable_current_modes

from pgmo.error_frames import clears_frames
from pgmo.errors import OptionError

Runner = Callable[[list[Any]], Any]
"""Compiled graph, which empties the list of its inputs to free them early."""

Compiler = Callable[[fx.GraphModule, Sequence[Any]], Runner]
Partitioner = Callable[..., tuple[fx.GraphModule, fx.GraphModule]]
Spec = Any


def flatten(tree: object) -> tuple[list[Any], Spec]:
    """Return the leaves of nested tuples, lists and dictionaries, and their structure."""
    return _pytree.tree_flatten(tree)


def unflatten(leaves: Sequence[Any], spec: Spec) -> Any:
    """Return the tree with these leaves and this structure; the inverse of `flatten`."""
    return _pytree.tree_unflatten(list(leaves), spec)


def backend(partitioner: Partitioner, forward: Compiler, backward: Compiler) -> Callable[..., Any]:
    """Return a backend for `torch.compile` with this partition function and these compilers."""
    from torch._dynamo.backends.common import aot_autograd

    made: Callable[..., Any] = aot_autograd(
        fw_compiler=forward, bw_compiler=backward, partition_fn=partitioner
    )
    return made


def inductor(partitioner: Partitioner, identity: str) -> Callable[..., Any]:
    """Return a backend for `torch.compile`: Inductor with this partition function.

    `identity` is part of the key of Inductor's cache. Partitioners that split differently must
    have different identities.
    """
    from torch._inductor.custom_graph_pass import CustomPartitionerFn

    class Partitioning(CustomPartitionerFn):
        def __call__(self, gm: fx.GraphModule, joint_inputs: object, **options: Any) -> Any:
            return partitioner(gm, joint_inputs, **options)

        def uuid(self) -> str:
            return identity

        # Inductor copies and pickles its settings to compare them. A partitioner with fake tensors
        # cannot be copied or pickled.

        def __deepcopy__(self, _memo: object) -> "Partitioning":
            return self

        def __reduce__(self) -> tuple[type, tuple[str]]:
            return str, (identity,)

    patches = {"custom_partitioner_fn": Partitioning()}

    def compile_graph(
        module: fx.GraphModule,
        inputs: Sequence[Any],
        *,
        mode: str | None = None,
        options: dict[str, Any] | None = None,
    ) -> Any:
        from torch._inductor import list_mode_options
        from torch._inductor.compile_fx import compile_fx

        chosen = {**list_mode_options(mode or "default"), **(options or {}), **patches}
        return compile_fx(module, list(inputs), config_patches=chosen)

    return compile_graph


class _BoxedCodeGen(CodeGen):
    """Code generator of a function that empties the list of its inputs."""

    def gen_fn_def(self, free_vars: list[str], *_annotations: object, **_layout: object) -> str:
        names = [one.split(":")[0].split("=")[0].strip() for one in free_vars if one != "self"]
        taken = "".join(f"{name}, " for name in names)
        taking = f"\n    {taken}= arguments" if names else ""
        return f"def {self._func_name}(self, arguments):{taking}\n    arguments.clear()"


def boxed(module: fx.GraphModule) -> Runner:
    """Return a function that runs a graph, and frees values and inputs at their last use."""
    module.graph.set_codegen(_BoxedCodeGen())
    module.recompile()
    return mark_boxed(module.forward)


def mark_boxed(run: Runner) -> Runner:
    """Return a runner that AOTAutograd calls with one list of all inputs."""

    @clears_frames
    def boxed_run(arguments: list[Any]) -> Any:
        return run(arguments)

    boxed_run._boxed_call = True  # type: ignore[attr-defined]
    return boxed_run


def traced_graph() -> fx.Graph | None:
    """Return the graph that is being traced, or None."""
    mode = get_proxy_mode()
    tracer = getattr(mode, "tracer", None)
    graph = getattr(tracer, "graph", None)
    return graph if isinstance(graph, fx.Graph) else None


def nodes_from(graph: fx.Graph, first: int) -> list[fx.Node]:
    """Return the nodes of a graph from number `first` on."""
    count = len(graph.nodes) - first
    return [node for node, _ in zip(reversed(graph.nodes), range(count), strict=False)][::-1]


library: Any = torch.library.Library("pgmo", "FRAGMENT")  # type: ignore[no-untyped-call]
"""Library of operators that occur only in graphs that are being traced."""

library.define("mark(Tensor marked) -> ()")
library.impl("mark", lambda _marked: None, "CompositeExplicitAutograd")
torch.library.register_fake("pgmo::mark", lambda _marked: None, lib=library)


def node_of(tensor: Tensor) -> fx.Node | None:
    """Return the node of the traced graph that computes a tensor, or None."""
    graph = traced_graph()
    if graph is None:
        return None
    torch.ops.pgmo.mark(tensor)
    mark = next(iter(reversed(graph.nodes)))
    (node,) = mark.all_input_nodes
    graph.erase_node(mark)
    return None if node.op == "get_attr" else node  # No node computes a constant.


def is_capturing() -> bool:
    """Return whether AOTAutograd is tracing or analysing a forward pass."""
    key = torch._C._TorchDispatchModeKey.FUNCTIONAL
    return traced_graph() is not None or torch._C._get_dispatch_mode(key) is not None


def is_watched() -> bool:
    """Return whether an active dispatch mode keeps Dynamo from compiling."""
    return bool(_python_dispatch.is_in_any_mode_without_ignore_compile_internals())


def storage_key(tensor: Tensor) -> int:
    """Return the key of a tensor's storage, unique while the storage exists."""
    return id(tensor.untyped_storage())  # The storage object lives as long as its memory.


def metadata(tensor: Tensor) -> tuple[object, ...]:
    """Return shape, strides, dtype and device of a tensor."""
    return (tensor.shape, tensor.stride(), tensor.dtype, tensor.device)


def without_tracing() -> AbstractContextManager[Any]:
    """Return a context in which new tensors are real, even during a capture."""
    return _disable_current_modes()


def autograd_nodes(roots: Iterable[Any]) -> Iterator[Any]:
    """Yield the autograd nodes that a backward pass from `roots` may run. Roots may be None."""
    stack = list({one: None for one in roots if one is not None})
    seen = set(stack)
    while stack:
        node = stack.pop()
        yield node
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                stack.append(following)


MODULE_PREFIX = re.compile(r"^L\['\w+'\](\.__self__)?\.?")
"""Prefix of the module paths that Dynamo writes into nodes, such as `L['self'].layers.0`."""


def is_tangent(node: fx.Node) -> bool:
    """Return whether a node is a tangent: an input that is the gradient of an output."""
    return node.op == "placeholder" and "tangents" in str(node.target)


def is_backward(node: fx.Node) -> bool | None:
    """Return whether a node was traced in the backward pass; None if unknown."""
    mark = node.meta.get("partitioner_tag")
    return None if mark is None else mark in ("is_backward", "must_be_in_backward")


def is_profiling() -> bool:
    """Return whether PyTorch's profiler is active. PyTorch allows one profile at a time."""
    return bool(torch._C._autograd._profiler_enabled())


def writes_memory_events(device: torch.device) -> bool:
    """Return whether a profile records the allocations of a device."""
    if device.type == "cuda":
        return bool(torch.cuda.get_allocator_backend() == "native")
    return device.type == "cpu"


def memory_changes(finished: profile, device: torch.device) -> list[tuple[str, int]]:
    """Return the name of each event of a profile, in order of time, and the bytes it allocates.

    The bytes are negative for a free, and 0 except for "[memory]" events of the device.
    """
    number = {"cpu": -1}.get(device.type, device.index)
    if number is None:
        number = torch.cuda.current_device()

    def is_ours(event: Any) -> bool:
        kind = str(event.device_type()).rpartition(".")[2].lower()
        return bool(kind == device.type and event.device_index() == number)

    results: Any = finished.kineto_results
    return [
        (
            str(event.name()),
            int(event.nbytes()) if event.name() == "[memory]" and is_ours(event) else 0,
        )
        for event in sorted(results.events(), key=lambda event: event.start_ns())
    ]


def boxes_gradients() -> bool:
    """Return whether a compiled backward pass may free its tangents while it runs."""
    return version() >= (2, 12)


def fakes(example: object) -> list[Tensor]:
    """Return the tensors in a node's example value (`meta["val"]`), which may be nested."""
    if isinstance(example, Tensor):
        return [example]
    if example is None or isinstance(example, (bool, int, float)):
        return []
    if type(example) in (tuple, list):  # `flatten` is too slow for 10,000 calls in a capture.
        return [leaf for one in cast("Sequence[Any]", example) for leaf in fakes(one)]
    return [leaf for leaf in flatten(example)[0] if isinstance(leaf, Tensor)]


def renewed(example: Any) -> Any:
    """Return a copy of a node's example value in new storages, for an operator that runs twice."""
    return _pytree.tree_map_only(
        Tensor, lambda one: one.new_empty_strided(one.shape, one.stride()), example
    )


_OLDEST = (2, 11)
"""Oldest version of PyTorch that is tested."""


def version() -> tuple[int, int]:
    """Return the major and minor version of PyTorch."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def refuse_old_versions() -> None:
    """Raise OptionError if PyTorch is older than the oldest tested version."""
    if version() < _OLDEST:
        raise OptionError(
            f"pgmo.recompute needs PyTorch {_OLDEST[0]}.{_OLDEST[1]} or later, this is "
            f"{torch.__version__}. Update PyTorch, or use torch.utils.checkpoint"
        )
