"""Checkmate's program for CP-SAT, which proves optimal recomputation of small steps.

    stage 0      0
    stage 1      0?  1               R[t, i]  operation i runs (again) in stage t
    stage 2      0?  1?  2           S[t, v]  value v is carried into stage t
    ...                              A[t, v, k]  value v is alive in stage t while operation k runs

Each operation of the step has a stage, in which it runs last. Before it, any earlier operation may
run again once per stage, in the order of the step. The load while an operation runs (U in the
paper) is the sum over A, the values that the operation writes, and its workspace. A value is freed
after its last reader in a stage, unless it is carried into the next stage. Sizes are exact, in
bytes. Costs are rounded to millionths of the forward pass.

Source:
    Jain et al., "Checkmate: Breaking the Memory Wall with Optimal Tensor Rematerialization",
    MLSys 2020, section 4.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

from ortools.sat.python import cp_model

from pgmo.recompute.planners.graph import Graph

_UNIT = 1_000_000


@dataclass(frozen=True)
class Optimum:
    """Result of CP-SAT for a step.

    Args:
        value: least peak found in bytes, or least overhead found as a share of the forward pass.
        bound: lower bound of all solutions; equal to the value if that is proved optimal.
    """

    value: float
    bound: float


class Program:
    """Checkmate's program of a step, in which operations of the forward pass may run again."""

    def __init__(self, graph: Graph) -> None:
        self._graph, self._model = graph, cp_model.CpModel()
        self._again = [i for i in range(graph.forward) if not graph.operations[i].pinned]
        self._most = sum(value.size for value in graph.values) + max(
            (one.workspace for one in graph.operations), default=0
        )
        self._peak = self._model.new_int_var(0, self._most, "peak")
        self._runs = self._stages()
        self._carried = self._carry()
        self._memory()
        self._without_waste()
        unit = _UNIT / (graph.forward_cost or 1.0)
        self._cost = sum(
            round(unit * graph.operations[i].cost) * run for (_, i), run in self._runs.items()
        )

    def least_peak(self, seconds: float) -> Optimum:
        """Search for the least peak; raise a ValueError if nothing is found in time."""
        self._model.minimize(self._peak)
        return self._solve(seconds, 1)

    def least_overhead(self, budget: int, seconds: float) -> Optimum:
        """Search for the least overhead within a budget in bytes. Errors as in `least_peak`."""
        self._model.add(self._peak <= budget)
        self._model.minimize(self._cost)
        return self._solve(seconds, _UNIT)

    def _stages(self) -> dict[tuple[int, int], cp_model.IntVar]:
        return {
            (t, i): self._model.new_bool_var(f"R{t},{i}")
            for t in range(len(self._graph.operations))
            for i in self._again
            if i < t
        }

    def _run(self, stage: int, operation: int) -> cp_model.IntVar | Literal[0, 1]:
        if stage == operation:
            return 1
        return self._runs.get((stage, operation), 0)

    def _made(self, stage: int, value: int) -> cp_model.IntVar | Literal[0, 1]:
        """Return whether a stage writes a value. Pinned values and results are written once."""
        one = self._graph.values[value]
        if stage != one.producer and (one.pinned or one.result):
            return 0
        return self._run(stage, one.producer)

    def _carry(self) -> dict[tuple[int, int], cp_model.IntVar]:
        """Return S, with the constraint that each value that is read is carried or written."""
        graph, carried = self._graph, {}
        for value, one in enumerate(graph.values):
            if one.producer < 0 or one.result:
                continue
            for t in range(one.producer + 1, len(graph.operations)):
                carried[t, value] = self._model.new_bool_var(f"S{t},{value}")
                before = carried.get((t - 1, value), 0)
                self._model.add(carried[t, value] <= before + self._made(t - 1, value))
        for t in range(len(graph.operations)):
            for i in (*(i for i in self._again if i < t), t):
                for value in graph.operations[i].reads:
                    if graph.values[value].producer >= 0 and not graph.values[value].result:
                        there = carried.get((t, value), 0) + self._made(t, value)
                        self._model.add(self._run(t, i) <= there)
        return carried

    def _without_waste(self) -> None:
        """Exclude solutions that cannot be optimal, so that proofs are much faster."""
        graph, model = self._graph, self._model
        readers = defaultdict(list)
        for index, one in enumerate(graph.operations):
            for value in one.reads:
                readers[value].append(index)
        for (t, i), run in self._runs.items():
            uses = [
                use
                for value in graph.operations[i].writes
                if not graph.values[value].pinned and not graph.values[value].result
                for use in (
                    *(self._run(t, j) for j in readers[value]),
                    self._carried.get((t + 1, value), 0),
                )
            ]
            model.add(sum(uses) >= run)
        for (t, value), kept in self._carried.items():
            uses = [self._run(t, j) for j in readers[value]]
            model.add(sum(uses) + self._carried.get((t + 1, value), 0) >= kept)
            one = graph.values[value]
            if not one.pinned and len(graph.operations[one.producer].writes) == 1:
                again = self._run(t, one.producer)
                if not isinstance(again, int):
                    model.add(again + kept <= 1)

    def _memory(self) -> None:
        graph, model = self._graph, self._model
        results = [(v, one) for v, one in enumerate(graph.values) if one.result]
        for t in range(len(graph.operations)):
            order = [*(i for i in self._again if i < t), t]
            alive: dict[int, list[tuple[int, cp_model.IntVar]]] = defaultdict(list)
            for value, one in enumerate(graph.values):
                if 0 <= one.producer <= t and not one.result:
                    for k, variable in self._alive(t, value, order):
                        alive[k].append((one.size, variable))
            for k in order:
                fixed = graph.operations[k].workspace
                fixed += sum(graph.values[value].size for value in graph.operations[k].writes)
                fixed += sum(one.size for _, one in results if 0 <= one.producer < t)
                load = sum(size * variable for size, variable in alive[k]) + fixed
                held = model.add(load <= self._peak)
                if k < t:
                    held.only_enforce_if(self._runs[t, k])

    def _alive(self, t: int, value: int, order: list[int]) -> list[tuple[int, "cp_model.IntVar"]]:
        """Return A for a value in a stage, by the operations that may run in the stage."""
        one = self._graph.values[value]
        found = []
        later = self._carried.get((t + 1, value))
        for k in reversed(order):
            if k == one.producer:
                continue  # while the value is written, it counts as written
            if k < one.producer:
                if (t, value) in self._carried:
                    found.append((k, self._carried[t, value]))
                continue
            now = self._model.new_bool_var(f"A{t},{value},{k}")
            if later is not None:
                self._model.add(now >= later)
            if value in self._graph.operations[k].reads:
                self._model.add(now >= self._run(t, k))
            found.append((k, now))
            later = now
        if later is not None and one.pinned and (t, value) in self._carried:
            # If the producer of a pinned value runs again, it does not write the value again.
            found.append((one.producer, self._carried[t, value]))
        return found

    def _solve(self, seconds: float, unit: int) -> Optimum:
        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = seconds
        solver.parameters.num_workers = 2
        status = solver.solve(self._model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            raise ValueError(f"CP-SAT found nothing in {seconds} s: {solver.status_name(status)}")
        return Optimum(solver.objective_value / unit, solver.best_objective_bound / unit)
