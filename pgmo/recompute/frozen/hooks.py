"""Hooks of submodules: a captured step enters no submodule, and they would not run."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import nn
from torch.nn.modules import module as torch_module

from pgmo.errors import GraphError
from pgmo.recompute.frozen.places import of_function

_KINDS = {
    "_forward_pre_hooks": "forward pre-hook",
    "_forward_hooks": "forward hook",
    "_backward_pre_hooks": "backward pre-hook",
    "_backward_hooks": "backward hook",
}

_HARMLESS = (
    *("torch.nn.utils.", "transformers.utils.output_capturing", "pgmo."),
    "transformers.modeling_utils",  # makes the embedding's result require gradients
)
"""Modules whose hooks compute with parameters, or collect what forward returns: both are captured;
our own watch what runs."""


def refuse_hooks(model: nn.Module) -> None:
    """Refuses hooks that a captured step would leave out.

    The model's own run around the step, at each call.

    Raises:
        GraphError: a submodule has one, or there is one for all modules.
    """
    refuse_global_hooks()
    for path, one in model.named_modules():
        if path:
            for hook, words in _of(one):
                raise GraphError(f"{path} has a {words}, {of_function(hook)}. {_ADVICE}")


def refuse_global_hooks() -> None:
    """Refuses hooks of all modules that a captured step would leave out.

    Raises:
        GraphError: there is one.
    """
    for kind, words in _KINDS.items():
        for one in _others(getattr(torch_module, "_global" + kind)):
            raise GraphError(f"there is a {words} for all modules, {of_function(one)}. {_ADVICE}")


_ADVICE = (
    "A captured step enters no submodules: the hook would run while it is captured, on tensors "
    "without contents, and never again. Remove it (its handle has remove()), register it on the "
    "model itself, or let the forward pass return what it looks at"
)


def _of(module: nn.Module) -> Iterator[tuple[Callable[..., Any], str]]:
    for kind, words in _KINDS.items():
        for one in _others(getattr(module, kind)):
            yield one, words


def _others(hooks: Mapping[int, Callable[..., Any]]) -> list[Callable[..., Any]]:
    return [one for one in hooks.values() if not _home(one).startswith(_HARMLESS)] if hooks else []


def _home(hook: Callable[..., Any]) -> str:
    named = hook if hasattr(hook, "__qualname__") else type(hook)
    return str(getattr(named, "__module__", ""))
