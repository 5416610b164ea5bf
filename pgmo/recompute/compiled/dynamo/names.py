"""Paths of modules in graphs of Dynamo's, which names them from the function that it captures."""

import re

from torch import fx, nn

_OWNER = re.compile(r"^L\['\w+'\](\.__self__)?\.?")
"""How Dynamo names the module whose method it captures."""


def name_modules(graph: fx.GraphModule, model: nn.Module) -> None:
    """Write paths from the model on into the nodes of a graph."""
    paths = {str(id(one)): path for path, one in model.named_modules()}
    for node in graph.graph.nodes:
        stack = node.meta.get("nn_module_stack")
        if stack:
            node.meta["nn_module_stack"] = {
                key: (paths.get(key.partition("@")[0], _OWNER.sub("", path)), kind)
                for key, (path, kind) in stack.items()
            }
