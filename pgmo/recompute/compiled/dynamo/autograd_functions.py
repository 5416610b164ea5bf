"""Marks of the nodes that come from the derivatives of custom autograd functions.

Dynamo represents a custom function as one operator with two graphs. AOTAutograd converts this
operator back to a function, and traces the function.
"""

from typing import Any

from torch import Tensor, fx

from pgmo.recompute.capture.absent import note_autograd_functions
from pgmo.recompute.capture.compat import flatten, traced_graph

_CUSTOM = "autograd_function_apply"


def with_autograd_functions(module: fx.GraphModule) -> fx.GraphModule:
    """Return a graph that marks the nodes of custom derivatives while it is traced."""
    if not any(_has_custom(one) for one in module.modules()):
        return module
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in module.graph.nodes:
        if node.op == "output":
            graph.call_function(_note, tuple(copies[one] for one in node.all_input_nodes))
        copies[node] = graph.node_copy(node, copies.__getitem__)
    noting = fx.GraphModule(module, graph)
    noting.meta.update(module.meta)
    return noting


def _has_custom(module: object) -> bool:
    return isinstance(module, fx.GraphModule) and any(
        node.op == "call_function" and str(node.target) == _CUSTOM for node in module.graph.nodes
    )


def _note(*results: Any) -> None:
    if traced_graph() is not None:
        note_autograd_functions(one for one in flatten(results)[0] if isinstance(one, Tensor))
