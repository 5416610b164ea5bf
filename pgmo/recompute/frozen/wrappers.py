"""Modules that have code of their own around a model, which runs at each step: not to be captured.

DistributedDataParallel prepares its reducer in forward: captured, that happens once, and gradients
are no longer averaged.
"""

from torch import nn
from torch.nn.parameter import is_lazy

from pgmo.errors import GraphError

_WRAP = "Wrap the model that recomputes: DistributedDataParallel(pgmo.recompute({inner}, ...)[0])"
_SHARDED = "Put torch.utils.checkpoint around its blocks: sharded models are not captured"

_AROUND = {
    "DistributedDataParallel": _WRAP,
    "DataParallel": _WRAP + ", in a process for each device",
    "FullyShardedDataParallel": _SHARDED,
    "FSDPModule": _SHARDED,
}


def refuse_lazy(model: nn.Module) -> None:
    """Refuses models with parameters whose shapes are not known yet.

    Raises:
        GraphError: there is one.
    """
    for name, one in (*model.named_parameters(), *model.named_buffers()):
        if is_lazy(one):
            raise GraphError(
                f"{name} has no shape yet: it gets one when the model runs for the first time. Run "
                "it once (`with torch.no_grad(): model(...)`) and call pgmo.recompute then"
            )


def refuse_wrappers(model: nn.Module) -> None:
    """Refuses models that are wrapped, or compiled, or have such a part.

    Raises:
        GraphError: with what to do instead.
    """
    for path, one in model.named_modules():
        name = f"{path} is" if path else "the model is"
        inner = ".".join(("model", *filter(None, [path]), "module"))
        for kind in type(one).__mro__:
            if kind.__name__ in _AROUND and kind.__module__.startswith("torch."):
                raise GraphError(
                    f"{name} a {kind.__name__}: its own code runs at each step, and would run once "
                    "if it were captured. " + _AROUND[kind.__name__].format(inner=inner)
                )
        compiled = [kind.__name__ for kind in type(one).__mro__]
        if one._compiled_call_impl is not None or "OptimizedModule" in compiled:
            raise GraphError(
                f"{name} compiled (torch.compile). Give the model as it was before, or compile it "
                "with torch.compile(model, backend=pgmo.recompute.backend(budget), dynamic=False)"
            )
