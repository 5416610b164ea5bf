"""Hook on all forward passes, without PyTorch's warnings about global hooks."""

from collections.abc import Callable
from typing import Any

from pgmo.profiler.tagging.dynamo import skip


def add_forward_hook(hook: Callable[[Any, Any], None]) -> Any:
    """Call `hook(module, arguments)` before each forward pass; return a handle to remove the hook.

    Calls of compiled modules warn about other global hooks, but not about this hook.
    """
    from torch.nn.modules import module

    handle = module.register_module_forward_pre_hook(hook)
    asked = getattr(module, "_has_any_global_hook", None)  # no warnings before 2.9
    if asked is None:
        return handle
    asked = getattr(asked, "asks_all", asked)

    def has_any_other() -> bool:
        # `asked` reads only the collections of hooks.
        # No comprehension or generator: Dynamo would see their frames, too.
        for name in asked.__code__.co_names:
            hooks = vars(module)[name]
            if hooks and list(hooks) != [handle.id]:
                return True
        return False

    skip(has_any_other)
    has_any_other.__dict__["asks_all"] = asked
    module._has_any_global_hook = has_any_other
    return handle
