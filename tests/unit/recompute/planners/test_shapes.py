from dataclasses import replace

from pgmo.recompute.planners.budget import Share
from pgmo.recompute.planners.graph import EXAMPLE
from pgmo.recompute.planners.planning import plan_choice
from pgmo.recompute.planners.shapes import Shapes


def scaled(factor):
    return replace(
        EXAMPLE, values=tuple(replace(one, size=factor * one.size) for one in EXAMPLE.values)
    )


def test_a_share_refers_to_the_largest_peak_so_far():
    shapes = Shapes()
    half = Share(0.5)
    peaks = [100, 60, 200, 100]
    assert [shapes.limit(EXAMPLE, half, one) for one in peaks] == [50, 50, 100, 100]
    assert shapes.limit(EXAMPLE, 70, 1000) == 70


def test_a_share_refers_to_the_largest_peak_of_any_graph():
    shapes = Shapes()
    other = replace(
        EXAMPLE, operations=(replace(EXAMPLE.operations[0], name="cos"), *EXAMPLE.operations[1:])
    )
    assert shapes.limit(EXAMPLE, Share(0.5), 200) == 100
    assert shapes.limit(other, Share(0.5), 60) == 100
    assert shapes.limit(other, Share(0.5), 300) == 150
    assert shapes.limit(EXAMPLE, Share(0.5), 200) == 150


def test_min_becomes_the_peak_of_the_longest_shapes_plan():
    shapes = Shapes()
    assert shapes.limit(EXAMPLE, "min", 132) == "min"
    choice = plan_choice(EXAMPLE, "min")
    shapes.note(EXAMPLE, choice, "min")
    assert shapes.limit(scaled(1), "min", 132) == choice.peak
    assert shapes.limit(EXAMPLE, "min", 133) == "min"


def test_a_choice_serves_other_sizes_of_the_graph_where_it_fits():
    shapes = Shapes()
    choice = plan_choice(EXAMPLE, 10_000)
    assert shapes.known(EXAMPLE, 10_000) is None
    shapes.note(EXAMPLE, choice, 10_000)
    found = shapes.known(scaled(2), 2 * choice.peak)
    assert (found.recomputed, found.peak) == (choice.recomputed, 2 * choice.peak)
    assert shapes.known(scaled(2), 2 * choice.peak - 1) is None
    other = replace(
        EXAMPLE, operations=(replace(EXAMPLE.operations[0], name="cos"), *EXAMPLE.operations[1:])
    )
    assert shapes.known(other, 10_000) is None
