"""All private functions of PyTorch that recomputation needs, for torch 2.11 and later.

    here                of PyTorch
    inductor            CustomPartitionerFn, compile_fx
    is_capturing        _C._get_dispatch_mode
    is_watched          is_in_any_mode_without_ignore_compile_internals
    without_tracing     _disable_current_modes
    memory_changes      kineto_results.events(), _profiler_enabled

Trees are flattened by `torch.utils._pytree`, because libraries register their classes there.
`graphs.py` has those for graph modules, `compiled/measure.py` for engine calls, and
`compiled/dynamo` for Dynamo. Partition functions get more keywords in each version, so they accept
any.
"""

from collections.abc import Callable, Sequence
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
"""A compiled graph: takes its inputs as a list, which it empties, to free them early."""

Compiler = Callable[[fx.GraphModule, Sequence[Any]], Runner]
Partitioner = Callable[..., tuple[fx.GraphModule, fx.GraphModule]]
Spec = Any


def flatten(tree: object) -> tuple[list[Any], Spec]:
    """Return the leaves of nested tuples, lists and dictionaries, and their structure."""
    return _pytree.tree_flatten(tree)


def unflatten(leaves: Sequence[Any], spec: Spec) -> Any:
    """Rebuild a nested structure from the results of `flatten`."""
    return _pytree.tree_unflatten(list(leaves), spec)


def backend(partitioner: Partitioner, forward: Compiler, backward: Compiler) -> Callable[..., Any]:
    """Return a backend for `torch.compile` that partitions and compiles the graphs that it gets."""
    from torch._dynamo.backends.common import aot_autograd

    made: Callable[..., Any] = aot_autograd(
        fw_compiler=forward, bw_compiler=backward, partition_fn=partitioner
    )
    return made


def inductor(partitioner: Partitioner, identity: str) -> Callable[..., Any]:
    """Return a backend for `torch.compile`: inductor with another partitioner.

    Compiled code is cached under `identity`, a key of everything that affects the partitioner.
    """
    from torch._inductor.custom_graph_pass import CustomPartitionerFn

    class Partitioning(CustomPartitionerFn):
        def __call__(self, gm: fx.GraphModule, joint_inputs: object, **options: Any) -> Any:
            return partitioner(gm, joint_inputs, **options)

        def uuid(self) -> str:
            return identity

        # Inductor copies and pickles its settings to compare them. That fails for a partitioner
        # with fake tensors, and looks like a failed compilation.

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
    """Generator of a function that takes its inputs as a list, which it empties."""

    def gen_fn_def(self, free_vars: list[str], *_annotations: object, **_layout: object) -> str:
        names = [one.split(":")[0].split("=")[0].strip() for one in free_vars if one != "self"]
        taken = "".join(f"{name}, " for name in names)
        taking = f"\n    {taken}= arguments" if names else ""
        return f"def {self._func_name}(self, arguments):{taking}\n    arguments.clear()"


def boxed(module: fx.GraphModule) -> Runner:
    """Return a runner of a graph's operators; values and inputs are freed at their last use."""
    module.graph.set_codegen(_BoxedCodeGen())
    module.recompile()
    return mark_boxed(module.forward)


def mark_boxed(run: Runner) -> Runner:
    """Mark a function for AOTAutograd as one that takes its inputs as a list."""

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


library: Any = torch.library.Library("pgmo", "FRAGMENT")  # type: ignore[no-untyped-call]
"""Operators that exist only in traced graphs and are replaced before they run."""

library.define("mark(Tensor marked) -> ()")
library.impl("mark", lambda _marked: None, "CompositeExplicitAutograd")
torch.library.register_fake("pgmo::mark", lambda _marked: None, lib=library)


def node_of(tensor: Tensor) -> fx.Node | None:
    """Return the node of the traced graph that stands for a tensor, or None."""
    graph = traced_graph()
    if graph is None:
        return None
    torch.ops.pgmo.mark(tensor)
    mark = next(iter(reversed(graph.nodes)))
    (node,) = mark.all_input_nodes
    graph.erase_node(mark)
    return None if node.op == "get_attr" else node  # A constant has no node yet.


def is_capturing() -> bool:
    """Return whether AOTAutograd runs a forward pass now, to trace or to analyse it."""
    key = torch._C._TorchDispatchModeKey.FUNCTIONAL
    return traced_graph() is not None or torch._C._get_dispatch_mode(key) is not None


def is_watched() -> bool:
    """Return whether a dispatch mode is active under which Dynamo compiles nothing."""
    return bool(_python_dispatch.is_in_any_mode_without_ignore_compile_internals())


def storage_key(tensor: Tensor) -> int:
    """Return a key that is equal for tensors in the same storage, while the storage exists."""
    return id(tensor.untyped_storage())  # The object lives as long as the memory.


def metadata(tensor: Tensor) -> tuple[object, ...]:
    """Return shape, strides, type and device of a tensor; they can be hashed."""
    return (tensor.shape, tensor.stride(), tensor.dtype, tensor.device)


def without_tracing() -> AbstractContextManager[Any]:
    """Return a context without tracing: its tensors are real, even during a capture."""
    return _disable_current_modes()


def is_tangent(node: fx.Node) -> bool:
    """Return whether a node is the gradient of an output, an input of the backward pass."""
    return node.op == "placeholder" and "tangents" in str(node.target)


def is_backward(node: fx.Node) -> bool | None:
    """Return whether a node was traced in the backward pass; None if it is not marked."""
    mark = node.meta.get("partitioner_tag")
    return None if mark is None else mark in ("is_backward", "must_be_in_backward")


def is_profiling() -> bool:
    """Return whether a profile is being taken; there can be only one."""
    return bool(torch._C._autograd._profiler_enabled())


def writes_memory_events(device: torch.device) -> bool:
    """Return whether a profile records the allocations of a device."""
    if device.type == "cuda":
        return bool(torch.cuda.get_allocator_backend() == "native")
    return device.type == "cpu"


def memory_changes(finished: profile, device: torch.device) -> list[tuple[str, int, int, int]]:
    """Return the memory events of a device in a profile, in order of time.

    Returns:
        Name, start and duration in nanoseconds, and bytes. Bytes are negative for a free, and 0 for
        events that are not called "[memory]" or belong to another device.
    """
    number = {"cpu": -1}.get(device.type, device.index)
    if number is None:
        number = torch.cuda.current_device()

    def is_ours(event: Any) -> bool:
        kind = str(event.device_type()).rpartition(".")[2].lower()
        return bool(kind == device.type and event.device_index() == number)

    results: Any = finished.kineto_results
    rows = [
        (
            str(event.name()),
            int(event.start_ns()),
            int(event.duration_ns()),
            int(event.nbytes()) if event.name() == "[memory]" and is_ours(event) else 0,
        )
        for event in results.events()
    ]
    return sorted(rows, key=lambda row: row[1])


def boxes_gradients() -> bool:
    """Return whether a compiled backward pass may free its given gradients while it runs."""
    return version() >= (2, 12)


def fakes(example: object) -> list[Tensor]:
    """Return the tensors in a node's example value, which may be nested."""
    if isinstance(example, Tensor):
        return [example]
    if example is None or isinstance(example, (bool, int, float)):
        return []
    if type(example) in (tuple, list):  # Ten thousand calls; `flatten` is slow.
        return [leaf for one in cast("Sequence[Any]", example) for leaf in fakes(one)]
    return [leaf for leaf in flatten(example)[0] if isinstance(leaf, Tensor)]


def renewed(example: Any) -> Any:
    """Return a node's example value in new storages, for an operator that runs twice."""
    return _pytree.tree_map_only(
        Tensor, lambda one: one.new_empty_strided(one.shape, one.stride()), example
    )


_OLDEST = (2, 11)
"""Oldest version of PyTorch whose Dynamo was tested."""


def version() -> tuple[int, int]:
    """Return the version of PyTorch without the patch level."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def refuse_old_versions() -> None:
    """Raise OptionError if PyTorch is older than the oldest tested version."""
    if version() < _OLDEST:
        raise OptionError(
            f"pgmo.recompute needs PyTorch {_OLDEST[0]}.{_OLDEST[1]} or later, this is "
            f"{torch.__version__}. Update it, or put torch.utils.checkpoint around blocks"
        )
