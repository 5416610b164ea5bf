"""Plan that `pgmo.recompute` returns."""

from collections import Counter
from typing import TYPE_CHECKING, Any

import torch

from pgmo.errors import GraphError
from pgmo.recompute.curve import Curve, Point
from pgmo.recompute.explain import explain
from pgmo.recompute.planners import planning
from pgmo.recompute.runtime.decide import PlannedStep
from pgmo.recompute.step_profile import step_profile
from pgmo.units import format_bytes

if TYPE_CHECKING:
    from pgmo.profiler.profile import Profile
    from pgmo.recompute.capture.joint_graph import Captured
    from pgmo.recompute.card_budget import CardBudget
    from pgmo.recompute.compiled.model import CompiledModel
    from pgmo.recompute.compiled.step import CompiledStep
    from pgmo.recompute.planners.graph import Graph
    from pgmo.recompute.planners.schedule import Schedule


class RecomputePlan:
    """Plan of a step: what is recomputed, and the predicted peak.

    Peaks count the bytes that the step allocates: activations, gradients (also of parameters),
    results and workspaces. `resident` is the number of bytes of parameters, buffers and example
    inputs. `card` describes the memory of the given card, or is None.

    The plan is for the first planned call: the example call or, without example inputs, the model's
    first call whose results need gradients. Before this call is planned, only `resident`, `card`,
    `state_bytes` and `repr()` can be used; other attributes and methods raise GraphError.

    Example:
        >>> model, plan = pgmo.recompute(model, batch, budget="8 GiB")  # doctest: +SKIP
        >>> print(plan.explain())  # doctest: +SKIP
        >>> plan.curve().plot("curve.png")  # doctest: +SKIP
    """

    def __init__(
        self, recomputing: "CompiledModel", resident: int, card: "CardBudget | None" = None
    ) -> None:
        self._recomputing, self.resident, self.card = recomputing, resident, card

    @property
    def _call(self) -> "CompiledStep":
        if self._recomputing.first is None:
            raise GraphError(
                "nothing is planned yet: without example inputs, the model is planned at its "
                "first call whose results need gradients"
            )
        return self._recomputing.first

    @property
    def _planned(self) -> PlannedStep:
        return self._call.planned  # The step may have been planned again.

    @property
    def captured(self) -> "Captured":
        """The graph, with the nodes of AOTAutograd's graph if the step is a single graph."""
        return self._planned.captured

    @property
    def graph(self) -> "Graph":
        """The planned step as operations and values."""
        return self._planned.captured.graph

    @property
    def schedule(self) -> "Schedule":
        """The planned step in the order in which it runs."""
        return self._planned.schedule

    @property
    def peak(self) -> int:
        """Predicted peak of the step in bytes."""
        return self.schedule.peak

    @property
    def default_peak(self) -> int:
        """Predicted peak of the original model, with its own checkpoints, in bytes."""
        return self._planned.default.peak

    @property
    def overhead(self) -> float:
        """Time of reruns and of waiting for transfers, as a share of the forward pass's time.

        The time includes transfers of the optimizer's state (`state=True`).
        """
        return self.schedule.overhead + self.state_share

    @property
    def state_bytes(self) -> int:
        """Bytes of the optimizer's state that is on the host while the step runs."""
        card = self.card
        if card is None or card.optimizer is None or not card.state_on_host:
            return 0
        return card.optimizer.state

    @property
    def state_share(self) -> float:
        """Time of the state's transfers to the host and back, as a share of the forward pass."""
        rate, forward_cost = self._recomputing.settings.rate, self.graph.forward_cost
        if not rate or not forward_cost:
            return 0.0
        return 2 * self.state_bytes / rate / forward_cost

    @property
    def recomputed(self) -> frozenset[int]:
        """Numbers of the operations of `graph` that run more than once."""
        return self.schedule.recomputed

    @property
    def offloaded(self) -> frozenset[int]:
        """Numbers of the operations of `graph` whose result is offloaded to the host."""
        return self.schedule.offloaded

    @property
    def host_bytes(self) -> int:
        """Bytes of host memory for offloaded values; excludes the optimizer's state."""
        return self.schedule.host_bytes

    @property
    def planner(self) -> str:
        """Name of the planner that found the choice, as in `Choice`."""
        return self._planned.planner

    @property
    def budget(self) -> int | str | None:
        """Bytes that the peak must not exceed, "min", or None."""
        return self._planned.budget

    @property
    def graphs(self) -> int:
        """Number of calls of planned graphs in a step; above 1 only if there are graph breaks."""
        return self._planned.graphs

    @property
    def measured_peak(self) -> int | None:
        """Measured peak of a real step in bytes, or None before a measurement.

        A step is measured only if no parameter has a gradient yet, and no input has a `grad_fn`.
        """
        return self._call.measured

    def explain(self) -> str:
        """Return a description of the card, the peak, and the modules that drop most bytes."""
        text = explain(self._planned, self.measured_peak, self.resident)
        if self.card is None:
            return text
        head = f"{self.card.card.name}: {self.card}; {format_bytes(self.card.left)} are left."
        if self.state_bytes:
            head += (
                f" The optimizer's state, {format_bytes(self.state_bytes)}, is on the host while "
                f"the step runs; its transfers take {100 * self.state_share:.1f} % of the forward "
                "pass's time."
            )
        return f"{head}\n{text}"

    def curve(self, points: int = 9, time_limit: float = 10.0) -> Curve:
        """Return the trade-off between peak and overhead.

        With `offload`, choices may also offload values to the host.

        Args:
            points: number of budgets, from 2, evenly spaced from the smallest peak found to the
                peak without recomputation.
            time_limit: maximum seconds of one search. Each budget takes several searches.

        Returns:
            The choices found that no other choice beats in peak and overhead, by ascending peak.

        Raises:
            OptionError: if `points` is below 2, or `time_limit` is not positive.
        """
        graph, rate = self._planned.finest().graph, self._recomputing.settings.rate
        options: planning.SearchFields = {"time_limit": time_limit, "rate": rate}
        found = planning.curve(graph, points=points, **options)
        return Curve(tuple(Point.of(graph, one) for one in found))

    def profile(self) -> "Profile":
        """Return the planned step as a profile, with module, operator and phase of each block."""
        return step_profile(
            self.schedule,
            model=self._call.model,
            device=self._call.device,
            framework_version=str(torch.__version__),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as a dictionary; times are shares of the forward pass's time."""
        times = Counter(index for _, index in self.schedule.reruns)
        forward_cost = self.graph.forward_cost or 1.0
        return {
            "budget": self.budget,
            "peak": self.peak,
            "default_peak": self.default_peak,
            "measured_peak": self.measured_peak,
            "resident": self.resident,
            "overhead": self.overhead,
            "rerun": self.schedule.rerun_share,
            "waited": self.schedule.wait_share,
            "host_bytes": self.host_bytes,
            "state_bytes": self.state_bytes,
            "state_waited": self.state_share,
            "planner": self.planner,
            "graphs": self.graphs,
            "forward_operations": self.graph.forward,
            "recomputed": [
                {
                    **self._operation(index),
                    "share": times[index] * self.graph.operations[index].cost / forward_cost,
                }
                for index in sorted(self.recomputed)
            ],
            "offloaded": [self._operation(index) for index in sorted(self.offloaded)],
        }

    def _operation(self, index: int) -> dict[str, Any]:
        operation = self.graph.operations[index]
        return {"operation": index, "name": operation.name, "module": operation.module}

    def __repr__(self) -> str:
        if self._recomputing.first is None:
            return "RecomputePlan(nothing is planned yet)"
        return (
            f"RecomputePlan(peak {format_bytes(self.peak)} instead of "
            f"{format_bytes(self.default_peak)}, overhead {100 * self.overhead:.1f} %)"
        )
