"""Module paths in captured graphs, which Dynamo begins at the captured function."""

import re

from torch import fx, nn

_OWNER = re.compile(r"^L\['\w+'\](\.__self__)?\.?")
"""Prefix by which Dynamo refers to the module whose method it captures."""


def name_modules(graph: fx.GraphModule, model: nn.Module) -> None:
    """Write module paths that begin at the model into the nodes of a graph."""
    paths = {str(id(one)): path for path, one in model.named_modules()}
    for node in graph.graph.nodes:
        stack = node.meta.get("nn_module_stack")
        if stack:
            node.meta["nn_module_stack"] = {
                key: (paths.get(key.partition("@")[0], _OWNER.sub("", path)), kind)
                for key, (path, kind) in stack.items()
            }
