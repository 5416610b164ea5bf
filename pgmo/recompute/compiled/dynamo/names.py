"""Module paths in captured graphs."""

from torch import fx, nn

from pgmo.recompute.capture.compat import MODULE_PREFIX


def name_modules(graph: fx.GraphModule, model: nn.Module) -> None:
    """Replace the module paths in a graph's nodes by paths that begin at the model.

    Dynamo's paths begin at the captured function.
    """
    paths = {str(id(one)): path for path, one in model.named_modules()}
    for node in graph.graph.nodes:
        stack = node.meta.get("nn_module_stack")
        if stack:
            node.meta["nn_module_stack"] = {
                key: (paths.get(key.partition("@")[0], MODULE_PREFIX.sub("", path)), kind)
                for key, (path, kind) in stack.items()
            }
