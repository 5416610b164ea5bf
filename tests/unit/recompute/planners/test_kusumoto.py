"""Tests of the dynamic programs against all sequences of lower sets."""

from collections.abc import Iterator
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from pgmo.recompute.planners.kusumoto import DynamicProgram, Sequence
from pgmo.recompute.planners.lower_sets import Dag, ancestor_sets
from pgmo.recompute.planners.schedule import simulate
from tests.unit.recompute.graphs import chain
from tests.unit.recompute.planners.test_lower_sets import (
    all_lower_sets,
    as_sets,
    dags,
    readers,
)

TIME_UNITS = 4000  # Costs of these graphs are not rounded.


def formula(dag: Dag, path: list[set[int]]) -> tuple[float, int]:
    """Return the overhead and the peak of a sequence by the formulas of the paper."""

    def size(nodes: set[int]) -> int:
        return int(sum(dag.size[one] for one in nodes))

    def edge(members: set[int]) -> set[int]:
        return {one for one in members if readers(dag, one) - members}

    overhead, peak, cached = 0.0, 0, set[int]()
    for before, after in pairwise(path):
        block = after - before
        above = {one for node in after for one in readers(dag, node)} - after
        read = {one for node in above for one in dag.reads[node]} - after
        overhead += float(sum(dag.cost[one] for one in block - edge(after)))
        peak = max(peak, size(cached) + 2 * size(block) + size(above) + size(read))
        cached |= edge(after)
    return overhead, peak


def all_sequences(family: list[set[int]], path: list[set[int]]) -> Iterator[list[set[int]]]:
    if path[-1] == family[-1]:
        yield path
        return
    for one in family:
        if path[-1] < one:
            yield from all_sequences(family, [*path, one])


def path_of(sequence: Sequence) -> list[set[int]]:
    path = [set[int]()]
    for block in sequence.blocks:
        path.append(path[-1] | set(block))
    return path


@settings(max_examples=60)
@given(dags(most=6), st.sampled_from((all_lower_sets, ancestor_sets)), st.floats(1, 2))
def test_program_is_brute_force(dag: Dag, make: object, factor: float) -> None:
    members = make(dag)  # type: ignore[operator]
    family = as_sets(members)
    every = [formula(dag, path) for path in all_sequences(family, [set()])]
    program = DynamicProgram(dag, members, TIME_UNITS)
    least = program.least_budget()
    assert least == min(peak for _, peak in every)
    budget = int(least * factor)
    within = [overhead for overhead, peak in every if peak <= budget]
    for sequence, overhead in zip(program.solve(budget), (min(within), max(within)), strict=True):
        found, peak = formula(dag, path_of(sequence))
        assert found == overhead
        assert peak <= budget


@settings(max_examples=40)
@given(dags())
def test_cached_values_are_those_that_later_blocks_read(dag: Dag) -> None:
    program = DynamicProgram(dag, ancestor_sets(dag), TIME_UNITS)
    sequence = program.solve(program.least_budget())[1]
    home = {one: number for number, block in enumerate(sequence.blocks) for one in block}
    assert len(home) == len(dag)
    for node in range(len(dag)):
        later = any(home[reader] > home[node] for reader in readers(dag, node))
        assert (node in sequence.cached) == later
    assert sequence.dropped() == set(home) - sequence.cached
    assert sequence.dropped(last=False) == sequence.dropped() - set(sequence.blocks[-1])


def test_chain_takes_the_square_root() -> None:
    graph = chain(100)
    dag = Dag.of(graph)
    program = DynamicProgram(dag, ancestor_sets(dag), TIME_UNITS)
    least = program.least_budget()
    plain = simulate(graph).peak
    assert least < 0.35 * plain
    overheads = []
    for sequence in program.solve(least):
        schedule = simulate(graph, sequence.dropped())
        overhead, peak = formula(dag, path_of(sequence))
        assert schedule.peak <= peak
        assert schedule.cost <= overhead
        overheads.append(overhead)
    assert overheads == sorted(overheads)
    free, _ = program.solve(2 * plain)
    assert (
        formula(dag, path_of(free))[0] == 1
    )  # one operation for each block: only the last one is on no boundary
