"""Repeated blocks of a captured graph: only the last block is traced.

    layers[0]    a function of its inputs      replaced by a stand-in
    layers[1]    the same function             replaced by a stand-in
    layers[2]    the same function             traced: its derivative runs first

Blocks are submodules whose nodes have the same operators, constants and shapes. A stand-in operator
computes nothing, and copies of the traced nodes replace it later. Most of a capture is tracing, so
a model of many layers is captured faster.
"""

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, fx

from pgmo.recompute.capture.compat import flatten, traced_graph, without_tracing
from pgmo.recompute.capture.repeated import stand_in
from pgmo.recompute.capture.repeated.expand import expand
from pgmo.recompute.capture.repeated.template import NotAlikeError, Template, TensorMetadata

LEAST = 3
"""Minimum number of equal blocks of which only one is traced. Fewer blocks are all traced."""

_CALLS = ("call_function", "call_method")

_LEAST_NODES = 4
"""Minimum number of nodes of a block. Smaller blocks are faster to trace than to copy."""


@dataclass(eq=False)
class Segment:
    """Nodes of one submodule's call.

    Args:
        path: path of the submodule.
        nodes: nodes of the call, in order.
        inputs: outside nodes that `nodes` read, by first use.
        results: indices of the nodes that outside nodes read.
        key: key that segments share if they compute the same function.
    """

    path: str
    nodes: list[fx.Node]
    inputs: list[fx.Node]
    results: list[int]
    key: object


@dataclass(eq=False)
class _Kind:
    """Segments that compute the function `module`."""

    module: fx.GraphModule
    paths: list[str]
    results: tuple[TensorMetadata, ...] | None = None  # None before the function runs.
    template: Template = field(default_factory=Template)


class RepeatedSegments:
    """Repeated blocks of one graph during its capture.

    If tracing shows that blocks differ, or cannot be copied, it ends with an error.

    Attributes:
        module: the graph, with each repeated block as one call.
    """

    def __init__(self, module: fx.GraphModule) -> None:
        self._kinds: list[_Kind] = []
        self.module = module
        groups = list(_groups([node for node in module.graph.nodes if node.op in _CALLS]))
        if groups:
            self.module = self._shortened(module, groups)

    def __bool__(self) -> bool:
        return bool(self._kinds)

    def expand(self, joint: fx.GraphModule) -> None:
        """Replace stand-in operators by copies of traced nodes; NotAlikeError if blocks differ."""
        with without_tracing():
            expand(joint)

    def _shortened(self, module: fx.GraphModule, groups: list[list[Segment]]) -> fx.GraphModule:
        graph = fx.Graph()
        copies: dict[fx.Node, fx.Node] = {}
        first = {
            segment.nodes[0]: (number, place, segment)
            for number, group in enumerate(groups)
            for place, segment in enumerate(group)
        }
        inside = {node for group in groups for segment in group for node in segment.nodes}
        for group in groups:
            paths = [segment.path for segment in group]
            self._kinds.append(_Kind(_function(module, group[-1]), paths))
        for node in module.graph.nodes:
            if node in first:
                number, place, segment = first[node]
                given = [copies[one] for one in segment.inputs]
                call = graph.call_function(self._call, (number, place, *given))
                call.meta = {"nn_module_stack": segment.nodes[0].meta["nn_module_stack"]}
                for item, result in enumerate(segment.results):
                    made = segment.nodes[result]
                    copies[made] = graph.call_function(operator.getitem, (call, item))
                    copies[made].meta = dict(made.meta)
            if node not in inside:
                copies[node] = graph.node_copy(node, copies.__getitem__)
        shortened = fx.GraphModule(module, graph)
        shortened.meta.update(module.meta)
        return shortened

    def _call(self, number: int, place: int, *given: Tensor) -> tuple[Tensor, ...]:
        kind = self._kinds[number]
        if traced_graph() is None:
            if kind.results is None:
                results = _run(kind.module, given)
                kind.results = tuple(map(TensorMetadata.of, results))
                return results
        elif place == len(kind.paths) - 1:
            return _traced(kind, kind.paths[place], given)
        assert kind.results is not None
        one = stand_in.StandIn(kind.template, kind.paths[place], kind.results)
        return stand_in.call(one, list(given))


def _traced(kind: _Kind, path: str, given: Sequence[Tensor]) -> tuple[Tensor, ...]:
    results: tuple[Tensor, ...] = ()

    def run() -> Sequence[Tensor]:
        nonlocal results
        results = _run(kind.module, given)
        return results

    kind.template.trace(path, list(given), run)
    return results


def _run(module: fx.GraphModule, given: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Run a function node by node, so that traced nodes get the `meta` of their sources."""
    results: tuple[Tensor, ...] = fx.Interpreter(module).run(*given)
    return results


def _groups(nodes: list[fx.Node]) -> Iterator[list[Segment]]:
    """Yield groups of equal segments. Segments within a yielded segment are not yielded."""
    stack = [nodes]
    depth = {id(nodes): 0}
    while stack:
        part = stack.pop()
        level = depth.pop(id(part))
        children: dict[str, list[fx.Node]] = {}
        kinds: dict[str, object] = {}
        for node in part:
            modules = list((node.meta.get("nn_module_stack") or {}).items())
            if len(modules) > level:
                key, (_, kind) = modules[level]
                children.setdefault(key, []).append(node)
                kinds[key] = kind
        alike: dict[object, list[tuple[str, Segment | None]]] = {}
        for key, own in children.items():
            segment = _segment(own, level)
            form = (kinds[key], key if segment is None else segment.key)
            alike.setdefault(form, []).append((key, segment))
        for group in alike.values():
            found = [segment for _, segment in group if segment is not None]
            if len(found) >= LEAST:
                yield found
                continue
            for key, _ in group:
                stack.append(children[key])
                depth[id(children[key])] = level + 1


def _segment(nodes: list[fx.Node], level: int) -> Segment | None:
    """Return the segment of nodes.

    Return None if they are few or not contiguous, or if an input or a result is not a tensor.
    """
    if len(nodes) < _LEAST_NODES:
        return None
    numbers = {node: number for number, node in enumerate(nodes)}
    after = nodes[0]
    for node in nodes[1:]:
        if after.next is not node:
            return None
        after = node
    given: dict[fx.Node, int] = {}
    rows: list[object] = []

    def place(node: fx.Node) -> str:
        if node in numbers:
            return f"node {numbers[node]}"
        return f"given {given.setdefault(node, len(given))}"

    for node in nodes:
        arguments = fx.node.map_arg((node.args, node.kwargs), place)
        rows.append((node.op, node.target, repr(arguments), _metadata(node)))
    results = [
        number
        for number, node in enumerate(nodes)
        if any(user not in numbers for user in node.users)
    ]
    made = [nodes[number] for number in results]
    if not all(isinstance(_example(one), Tensor) for one in (*given, *made)):
        return None
    path = list(nodes[0].meta["nn_module_stack"].values())[level][0]
    form = (tuple(rows), tuple(map(_metadata, given)), tuple(results))
    return Segment(path, nodes, list(given), results, form)


def _example(node: fx.Node) -> object:
    return node.meta.get("example_value")


def _metadata(node: fx.Node) -> object:
    leaves = flatten(_example(node))[0]
    return tuple(TensorMetadata.of(one) if isinstance(one, Tensor) else repr(one) for one in leaves)


def _function(module: fx.GraphModule, segment: Segment) -> fx.GraphModule:
    graph = fx.Graph()
    copies = {
        node: graph.placeholder(f"given_{number}") for number, node in enumerate(segment.inputs)
    }
    for node in segment.nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    inside = {*segment.nodes}
    results = []
    for number in segment.results:
        node = segment.nodes[number]
        result = copies[node]
        example = _example(node)
        is_strided = isinstance(example, Tensor) and example.layout == torch.strided
        if is_strided and not inside.isdisjoint(node.users):
            result = graph.call_function(_view, (result,))
            result.meta = dict(node.meta)
        results.append(result)
    graph.output(tuple(results))
    return fx.GraphModule(module, graph)


def _view(result: Tensor) -> Tensor:
    """Return a view, so that autograd computes the gradient of outside uses by itself.

    `expand` removes the view.
    """
    view = result.view_as(result)
    if view.requires_grad != result.requires_grad:  # a block that ends without gradients
        raise NotAlikeError("a result lost its gradient")
    return view
