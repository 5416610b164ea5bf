"""Errors for models and hooks that cannot be planned."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn
from torch.nn.modules import module as torch_module
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import is_lazy

from pgmo.errors import GraphError
from pgmo.recompute.calls.lines import describe_function

_WRAP = "Wrap the model that recomputes: DistributedDataParallel(pgmo.recompute({inner}, ...)[0])"
_SHARDED = "Put torch.utils.checkpoint around its blocks: sharded models are not captured"

_AROUND = {
    "DistributedDataParallel": _WRAP,
    "DataParallel": _WRAP + ", in a process for each device",
    "FullyShardedDataParallel": _SHARDED,
    "FSDPModule": _SHARDED,
}

_BACKWARD = {"_backward_pre_hooks": "backward pre-hook", "_backward_hooks": "backward hook"}

_KINDS = {
    "_forward_pre_hooks": "forward pre-hook",
    "_forward_hooks": "forward hook",
    **_BACKWARD,
}

_OWN = "pgmo."  # Prefix of the modules of pgmo's own hooks, which only observe.

_ADVICE = (
    "Dynamo's graphs omit this hook. Remove the hook (its handle has remove()), register it on the "
    "model itself or on a tensor (tensor.register_hook), or let the forward pass return the values "
    "that the hook reads"
)


def refuse_lazy(model: nn.Module) -> None:
    """Raise GraphError if a parameter or buffer has no shape yet."""
    for name, one in (*model.named_parameters(), *model.named_buffers()):
        if is_lazy(one):
            raise GraphError(
                f"{name} has no shape yet: it gets one when the model first runs. Run the model "
                "once (`with torch.no_grad(): model(...)`) before pgmo.recompute"
            )


def refuse_static_graph() -> None:
    """Raise GraphError inside a step of DistributedDataParallel with a static graph.

    DistributedDataParallel counts the gradient hooks that run in its first step. A capture would
    add to this count.
    """
    active = getattr(DistributedDataParallel, "_active_ddp_module", None)
    if active is not None and active.static_graph:
        raise GraphError(
            "the model would be captured in a step of DistributedDataParallel(static_graph=True), "
            "which counts gradient hooks in its first step. Capture the model before it is "
            "wrapped, with example inputs: "
            "DistributedDataParallel(pgmo.recompute(model, batch)[0], ...)"
        )


def refuse_wrappers(model: nn.Module) -> None:
    """Raise GraphError, with the remedy, if a model is or contains a wrapper or compiled module.

    DistributedDataParallel prepares its reducer in `forward`, so it must wrap the recomputing
    model.
    """
    for path, one in model.named_modules():
        name = f"{path} is" if path else "the model is"
        inner = ".".join(("model", *filter(None, [path]), "module"))
        for kind in type(one).__mro__:
            if kind.__name__ in _AROUND and kind.__module__.startswith("torch."):
                raise GraphError(
                    f"{name} a {kind.__name__}: its code must run at each step, but a capture "
                    "would run it once. " + _AROUND[kind.__name__].format(inner=inner)
                )
        compiled = [kind.__name__ for kind in type(one).__mro__]
        if one._compiled_call_impl is not None or "OptimizedModule" in compiled:
            raise GraphError(
                f"{name} compiled (torch.compile). Give the uncompiled model, or compile it "
                "with torch.compile(model, backend=pgmo.recompute.backend(budget), dynamic=False)"
            )


def refuse_hooks(model: nn.Module) -> None:
    """Raise GraphError for backward hooks of submodules, and for global module hooks.

    Dynamo's graphs omit these hooks. Hooks of the model itself run at each call, outside of the
    captured step. pgmo's own hooks are accepted.
    """
    for kind, words in _KINDS.items():
        for one in _others(getattr(torch_module, "_global" + kind)):
            raise GraphError(
                f"there is a {words} for all modules, {describe_function(one)}. {_ADVICE}"
            )
    for path, module in model.named_modules():
        if path:
            for kind, words in _BACKWARD.items():
                for one in _others(getattr(module, kind)):
                    raise GraphError(f"{path} has a {words}, {describe_function(one)}. {_ADVICE}")


def _others(hooks: Mapping[int, Callable[..., Any]]) -> list[Callable[..., Any]]:
    return [one for one in hooks.values() if not _module_of(one).startswith(_OWN)] if hooks else []


def _module_of(hook: Callable[..., Any]) -> str:
    named = hook if hasattr(hook, "__qualname__") else type(hook)
    return str(getattr(named, "__module__", ""))
