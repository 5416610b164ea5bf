"""Backend of `torch.compile` that recomputes within a budget."""

from collections.abc import Callable
from typing import Any, Literal
from uuid import uuid4

from torch import fx

from pgmo.errors import OptionError
from pgmo.recompute.capture import compat
from pgmo.recompute.planners.budget import parse_budget
from pgmo.recompute.runtime.announce import announced
from pgmo.recompute.runtime.decide import Planner, Settings
from pgmo.recompute.runtime.execute import StepCompiler
from pgmo.version import __version__


def backend(
    budget: int | float | str | None = "min",
    *,
    planner: Planner | None = None,
    measure: bool = True,
    kernels: Literal["torch", "inductor"] = "torch",
) -> Callable[..., Any]:
    """Return a backend for `torch.compile` that recomputes within a budget.

    Each captured graph gets the whole budget; a model with graph breaks has several graphs. Sizes
    must be fixed: `torch.compile(model, backend=..., dynamic=False)`. No step is measured.

    Args:
        budget: as for `pgmo.recompute`, such as "8 GiB" or "min".
        planner: as for `pgmo.recompute`.
        measure: whether to run operators alone to learn their workspaces.
        kernels: "torch" runs the operators of the plain model. "inductor" compiles both passes, and
            takes the `mode=` and `options=` of `torch.compile`. Inductor fuses operators, so steps
            usually take less memory than planned, and results are not bit-identical.

    Returns:
        The backend.

    Raises:
        OptionError: if an option is invalid, or PyTorch is older than 2.11.

    Example:
        >>> backend = pgmo.recompute.backend("2 GiB")  # doctest: +SKIP
        >>> model = torch.compile(model, backend=backend, dynamic=False)  # doctest: +SKIP
    """
    compat.refuse_old_versions()
    settings = Settings(
        parse_budget(budget),
        planner,
        measure=measure,
        in_place=kernels == "torch",
    )

    def partition(
        joint: fx.GraphModule, _inputs: object, *, num_fwd_outputs: int, **_more: object
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        return StepCompiler.of(joint, num_fwd_outputs, settings).split()

    if kernels == "inductor":
        return compat.inductor(partition, _identity(settings, planner))
    if kernels != "torch":
        raise OptionError(f'kernels is {kernels!r}; give "torch" or "inductor"')

    def run(module: fx.GraphModule, _inputs: object) -> compat.Runner:
        return announced(module)

    return compat.backend(partition, run, run)


def _identity(settings: Settings, planner: Planner | None) -> str:
    """Return a cache key. Settings with equal keys split a graph in the same way."""
    name = uuid4().hex if planner else "search"
    return f"pgmo {__version__} {settings.budget!r} {settings.measure} {name}"
