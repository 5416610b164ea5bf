"""Changes of a script from outside: other ways to train.

autocast:bfloat16   run the outermost modules under autocast; also float16
checkpoint          run each block of a list of similar blocks under activation checkpointing
recompute:BUDGET    run the outermost model through `pgmo.recompute`; the budget is "min", a share,
                    or bytes ("900000B")
"""

from collections.abc import Iterator
from typing import Any


class ScriptChange:
    """Change of a script, made when its outermost module is called.

    Args:
        text: kind and value, such as "autocast:bfloat16"; see above.
    """

    def __init__(self, text: str) -> None:
        self._kind, _, self._value = text.partition(":")
        self._depth = 0
        self._open: list[Any] = []
        self._seen: set[int] = set()

    def attach(self) -> None:
        """Hook the calls of all modules."""
        from torch.nn.modules.module import (
            register_module_forward_hook,
            register_module_forward_pre_hook,
        )

        if self._kind == "recompute":
            self._wrap_calls()
            return
        register_module_forward_pre_hook(self._enter)
        register_module_forward_hook(self._leave, always_call=True)

    def _enter(self, module: Any, _inputs: Any) -> None:
        self._depth += 1
        if self._depth > 1:
            return
        if self._kind == "autocast":
            import torch

            context = torch.autocast("cuda", getattr(torch, self._value))
            context.__enter__()  # type: ignore[no-untyped-call]
            self._open.append(context)
        elif self._kind == "checkpoint" and id(module) not in self._seen:
            self._seen.add(id(module))
            checkpoint_blocks(module)

    def _leave(self, _module: Any, _inputs: Any, _output: Any) -> None:
        self._depth -= 1
        if self._depth == 0 and self._open:
            self._open.pop().__exit__(None, None, None)

    def _wrap_calls(self) -> None:
        """Redirect training calls of the outermost module to the model that recomputes."""
        from torch import is_grad_enabled
        from torch.nn import Module

        plain = Module.__call__
        text = self._value  # `pgmo.recompute` takes "min", bytes as text, and a share as a number
        budget = text if text == "min" or text.endswith("B") else float(text)
        made: dict[int, Any] = {}

        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            outer = self._depth == 0 and module.training and is_grad_enabled()
            if not outer or not any(one.requires_grad for one in module.parameters()):
                return plain(module, *args, **kwargs)
            self._depth += 1
            try:
                if id(module) not in made:
                    import pgmo

                    made[id(module)] = pgmo.recompute(module, budget=budget)[0]
                return plain(made[id(module)], *args, **kwargs)
            finally:
                self._depth -= 1

        Module.__call__ = call  # type: ignore[method-assign]


_SWITCHES: dict[str, dict[str, Any]] = {
    "gradient_checkpointing_enable": {"gradient_checkpointing_kwargs": {"use_reentrant": False}},
    "enable_gradient_checkpointing": {},
    "set_grad_checkpointing": {"enable": True},
}
"""Methods of transformers, diffusers and timm that enable checkpointing, with their arguments."""


def checkpoint_blocks(model: Any) -> int:
    """Put each block of a model under activation checkpointing; return the number of blocks.

    If the model has a method of `_SWITCHES`, the method enables checkpointing, and the result is
    -1. Otherwise the blocks are the modules of a list that have the same class.
    """
    for name, options in _SWITCHES.items():
        switch = getattr(model, name, None)
        if callable(switch) and getattr(model, "supports_gradient_checkpointing", True):
            switch(**options)
            return -1
    import functools

    from torch.utils.checkpoint import checkpoint

    count = 0
    for block in _blocks(model):
        block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
        count += 1
    return count


def _blocks(model: Any) -> Iterator[Any]:
    """Yield the outermost modules that have children and a sibling of the same class in a list."""
    from torch.nn import ModuleList, Sequential

    children = list(model.children())
    if isinstance(model, ModuleList | Sequential):
        kinds = [type(one) for one in children]
        alike = [one for one in children if kinds.count(type(one)) > 1 and any(one.children())]
        if alike:
            yield from alike
            return
    for child in children:
        yield from _blocks(child)
