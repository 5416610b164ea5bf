"""Backend of `torch.compile` with plans for recomputation."""

from collections.abc import Callable
from typing import Any, Literal
from uuid import uuid4

from torch import fx

from pgmo.errors import OptionError
from pgmo.recompute.capture import compat
from pgmo.recompute.planners.budget import parse_budget
from pgmo.recompute.runtime.announce import announced
from pgmo.recompute.runtime.decide import Planner, Settings, find_planner
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

    Each captured graph gets the whole budget; a model with graph breaks has several. Sizes must be
    fixed: `torch.compile(model, backend=..., dynamic=False)`.

    Inductor fuses operators, so intermediate results never exist. The plan counts all of them, so
    steps usually take less than planned. No step is measured. Results are close to
    the plain model's, but not bit-identical.

    Args:
        budget: bytes, text such as "8 GiB", or "min": as for `pgmo.recompute`.
        planner: as for `pgmo.recompute`.
        measure: as for `pgmo.recompute`.
        kernels: "torch" runs operators as they are, with the same bits as the plain model;
            "inductor" compiles both halves of the step, and takes the `mode=` and `options=` of
            `torch.compile`.

    Raises:
        OptionError: when an option has an invalid value, or PyTorch is too old.

    Example:
        >>> backend = pgmo.recompute.backend("2 GiB")  # doctest: +SKIP
        >>> model = torch.compile(model, backend=backend, dynamic=False)  # doctest: +SKIP
    """
    compat.refuse_old_versions()
    settings = Settings(
        parse_budget(budget),
        find_planner(planner),
        measure,
        in_place=kernels == "torch",
    )

    def partition(joint: fx.GraphModule, inputs: object, **options: Any) -> Any:
        return StepCompiler(settings).partition(joint, inputs, **options)

    if kernels == "inductor":
        return compat.inductor(partition, _identity(settings, planner))
    if kernels != "torch":
        raise OptionError(f'kernels is {kernels!r}; give "torch" or "inductor"')

    def run(module: fx.GraphModule, _inputs: object) -> compat.Runner:
        return announced(module)

    return compat.backend(partition, run, run)


def _identity(settings: Settings, planner: Planner | None) -> str:
    """Return a key for inductor's cache that is equal if a graph is split in the same way."""
    name = uuid4().hex if planner else "search"  # Two functions may differ in behaviour.
    return f"pgmo {__version__} {settings.budget!r} {settings.measure} {name}"
