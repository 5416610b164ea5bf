"""The same plans under `torch.compile`, which captures models that AOTAutograd alone cannot."""

from collections.abc import Callable
from typing import Any, Literal

from torch import fx

from pgmo.recompute import compat
from pgmo.recompute.announce import announced
from pgmo.recompute.budget import parse_budget
from pgmo.recompute.execute import Planner, Settings, Step, find_planner


def backend(
    budget: int | float | str | None = "min",
    *,
    costs: Literal["model", "measured"] = "model",
    planner: str | Planner = "search",
    measure: bool = True,
) -> Callable[..., Any]:
    """A backend for `torch.compile`: operators run as they are, and recompute within a budget.

    Each graph that is found gets the whole budget: a model with graph breaks has several. Sizes
    must be fixed: `torch.compile(model, backend=..., dynamic=False)`.

    Args:
        budget: as for `pgmo.recompute`.
        costs: as for `pgmo.recompute`.
        planner: as for `pgmo.recompute`.
        measure: as for `pgmo.recompute`.

    Example:
        >>> backend = pgmo.recompute.backend("2 GiB")  # doctest: +SKIP
        >>> model = torch.compile(model, backend=backend, dynamic=False)  # doctest: +SKIP
    """
    settings = Settings(parse_budget(budget), find_planner(planner), costs, measure, check=False)

    def partition(joint: fx.GraphModule, inputs: object, **options: Any) -> Any:
        return Step(settings).partition(joint, inputs, **options)

    def run(module: fx.GraphModule, _inputs: object) -> compat.Runner:
        return announced(module)

    return compat.backend(partition, run, run)
