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
    """Plan of a joint graph, with the graphs and runners of both passes.

    Attributes:
        expected: names of the tangents, the gradients of outputs, that the plan expects.
        planned: the plan.
        host: host memory for offloaded values.
    """

    expected: Names
    planned: PlannedStep
    # Step with all tangents, and backward graph for the `expected` tangents. Both are None if all
    # tangents are expected.
    _complete: Captured | None = None
    _narrow: fx.GraphModule | None = None
    host: HostArenas = field(default_factory=HostArenas)

    @classmethod
    def of(cls, joint: fx.GraphModule, outputs: int, settings: Settings) -> "StepCompiler":
        """Plan a joint graph whose forward pass has `outputs` outputs."""
        given = [node.name for node in tangents(joint)]
        expected = _expected(joint, given, settings.differentiated)
        absent = frozenset(given) - expected
        share_facts(joint.graph.nodes)
        complete = None
        if absent:
            complete = capture_step(joint, outputs, settings)
            joint = keep_alive(*narrowed(joint, absent))
        return cls(expected, plan_step(joint, outputs, settings), complete)

    def chosen(self, choice: Choice) -> "StepCompiler":
        """Return a compiler for a choice of operations of `planned.finest()`."""
        finest = self.planned.finest()
        planned = replace(
            self.planned,
            captured=finest,
            schedule=choice.on(finest.graph),
            planner=choice.planner,
            budget="min",
        )
        return StepCompiler(self.expected, planned, self._complete)

    def split(self) -> tuple[fx.GraphModule, fx.GraphModule]:
        """Return the forward and the backward graph of the plan."""
        captured, schedule, complete = self.planned.captured, self.planned.schedule, self._complete
        if complete is None:
            return split(captured, schedule, self.host)
        self._narrow = backward(captured, schedule, self.host)
        remove_kept(self._narrow)
        of_complete = choice_on(schedule, captured, complete)
        if captured.names(schedule.offloaded) != complete.names(of_complete.offloaded):
            self._narrow = None  # This graph would fetch values that are never sent.
        return split(complete, of_complete, self.host)

    def runners(self) -> tuple[Runner, Runner]:
        """Return the runners of the forward and the backward graph.

        The forward runner returns outputs and saved values. The backward runner takes saved values
        and tangents, and skips operators of absent tangents.
        """
        forward, module = self.split()
        places = [node.name for node in module.graph.find_nodes(op="placeholder")]
        wanted = [node.name for node in tangents(module)]
        halves: dict[Names, Runner] = {frozenset(wanted): announced(module)}
        if self._narrow is not None:
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


def _expected(
    joint: fx.GraphModule, given: Sequence[str], differentiated: tuple[bool, ...] | None
) -> Names:
    if differentiated is None:
        return frozenset(given) - unlikely_gradients(joint)
    return frozenset(name for name, comes in zip(given, differentiated, strict=True) if comes)


def _narrow_runner(module: fx.GraphModule, places: list[str]) -> Runner:
    """Return a runner of part of a backward pass, which takes the whole pass's inputs `places`."""
    needed = [places.index(node.name) for node in module.graph.find_nodes(op="placeholder")]
    run = announced(module)

    def narrow_run(arguments: list[Any]) -> Any:
        arguments[:] = [arguments[place] for place in needed]
        return run(arguments)

    return narrow_run
