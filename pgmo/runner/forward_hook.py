"""A hook on all forward passes of which the program is not warned as if it were its own."""

from collections.abc import Callable
from typing import Any

from pgmo.profiler.tagging.dynamo import skip


def add_forward_hook(hook: Callable[[Any, Any], None]) -> Any:
    """Has `hook(module, arguments)` called before each forward pass of a module.

    Calls of compiled modules warn of hooks on all modules. They do not count this one.

    Returns:
        A handle with `remove()`.
    """
    from torch.nn.modules import module

    handle = module.register_module_forward_pre_hook(hook)
    asked = getattr(module, "_has_any_global_hook", None)  # there are no warnings before 2.9
    if asked is None:
        return handle
    asked = getattr(asked, "asks_all", asked)

    def has_any_other() -> bool:
        # It reads nothing but the collections that hooks are kept in.
        # Dynamo looks at the frames of comprehensions and of generators, too.
        for name in asked.__code__.co_names:
            hooks = vars(module)[name]
            if hooks and list(hooks) != [handle.id]:
                return True
        return False

    skip(has_any_other)
    has_any_other.__dict__["asks_all"] = asked
    module._has_any_global_hook = has_any_other
    return handle
