"""Planned step of one joint graph, and the runners of its two passes.

A plan expects gradients of some outputs. The forward pass also saves the values for gradients of
the other outputs, so any backward pass works.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from torch import fx

from pgmo.recompute.capture.absent import (
    keep_alive,
    narrowed,
    remove_kept,
    tangents,
    unlikely_gradients,
    without,
)
from pgmo.recompute.capture.compat import Runner, mark_boxed
from pgmo.recompute.capture.joint_graph import Captured
from pgmo.recompute.capture.memory_use.facts import share_facts
from pgmo.recompute.planners.evaluator import Choice
from pgmo.recompute.runtime.announce import announced
from pgmo.recompute.runtime.decide import (
    PlannedStep,
    Settings,
    capture_step,
    choice_on,
    plan_step,
)
from pgmo.recompute.runtime.offload.host import HostArenas
from pgmo.recompute.runtime.rewrite import backward, split

Names = frozenset[str]


@dataclass
class StepCompiler:
    """Plan of a joint graph, with its graphs and runners.

    Attributes:
        settings: settings of planning.
        expected: names of the tangents that the plan expects; None before `plan`.
        planned: the plan; None before `plan`.
        host: host memory for offloaded values.
    """

    settings: Settings
    expected: Names | None = None
    planned: PlannedStep | None = None
    host: HostArenas = field(default_factory=HostArenas)
    # Backward graph for the `expected` tangents, and step with all tangents. Both are None if all
    # tangents are expected.
    _narrow: fx.GraphModule | None = None
    _whole: Captured | None = None

    def plan(self, joint: fx.GraphModule, outputs: int) -> PlannedStep:
        """Plan a joint graph with this number of outputs of the forward pass."""
        given = [node.name for node in tangents(joint)]
        if self.expected is None:
            self.expected = self._expected(joint, given)
        absent = frozenset(given) - self.expected
        share_facts(joint.graph.nodes)
        if absent:
            self._whole = capture_step(joint, outputs, self.settings)
            joint = keep_alive(*narrowed(joint, absent))
        self.planned = plan_step(joint, outputs, self.settings)
        return self.planned

    def chosen(self, choice: Choice, settings: Settings) -> "StepCompiler":
        """Return a compiler for a choice on the finest operations of the plan."""
        assert self.planned is not None
        finest = self.planned.finest()
        planned = replace(
            self.planned,
            captured=finest,
            schedule=choice.on(finest.graph),
            planner=choice.planner,
            budget="min",
        )
        return StepCompiler(settings, self.expected, planned, _whole=self._whole)

    def split(self) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Return the forward and the backward graph of the plan."""
        assert self.planned is not None
        captured, schedule, whole = self.planned.captured, self.planned.schedule, self._whole
        if whole is None:
            return split(captured, schedule, self.host)
        self._narrow = backward(captured, schedule, self.host)
        remove_kept(self._narrow)
        of_whole = choice_on(schedule, captured, whole)
        if captured.names(schedule.offloaded) != whole.names(of_whole.offloaded):
            self._narrow = None  # This graph would fetch values that are never sent.
        return split(whole, of_whole, self.host)

    def _expected(self, joint: fx.GraphModule, given: Sequence[str]) -> Names:
        differentiated = self.settings.differentiated
        if differentiated is None:
            return frozenset(given) - unlikely_gradients(joint)
        return frozenset(name for name, comes in zip(given, differentiated, strict=True) if comes)

    def runners(self) -> tuple[Runner, Runner]:
        """Return the runners of the forward and the backward graph.

        The forward runner returns outputs and saved values. The backward runner takes saved values
        and tangents, and skips operators of absent tangents.
        """
        forward, module = self.split()
        places = [node.name for node in module.graph.find_nodes(op="placeholder")]
        wanted = [node.name for node in tangents(module)]
        halves: dict[Names, Runner] = {frozenset(wanted): announced(module)}
        if self._narrow is not None and self.expected is not None:
            with suppress(ValueError):  # The graph may read a value that is not saved.
                halves[self.expected] = _narrow_runner(self._narrow, places)

        def run(arguments: list[Any]) -> Any:
            given = dict(zip(places, arguments, strict=True))
            came = frozenset(name for name in wanted if given[name] is not None)
            del given
            if came not in halves:
                halves[came] = _narrow_runner(without(module, {*wanted} - came), places)
            return halves[came](arguments)

        return self._guarded(announced(forward)), self._guarded(run)

    def _guarded(self, run: Runner) -> Runner:
        return mark_boxed(self.host.guarded(run))


def _narrow_runner(module: fx.GraphModule, places: list[str]) -> Runner:
    """Return a runner of a part of the backward pass that takes all inputs, named `places`."""
    needed = [places.index(node.name) for node in module.graph.find_nodes(op="placeholder")]
    run = announced(module)

    def narrow_run(arguments: list[Any]) -> Any:
        arguments[:] = [arguments[place] for place in needed]
        return run(arguments)

    return narrow_run
