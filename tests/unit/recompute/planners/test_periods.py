from pgmo.recompute.planners.graph import Graph, Operation, Value
from pgmo.recompute.planners.periods import period


def chain(layer, times):
    """Return a step in which `layer`, the costs of its operations, is repeated `times` times."""
    costs = [7.0, *layer * times, 9.0]
    operations = [Operation("op", (i,), (i + 1,), cost) for i, cost in enumerate(costs)]
    values = [Value(8, i - 1) for i in range(len(costs) + 1)]
    return Graph(tuple(operations), tuple(values), len(costs))


def test_the_period_is_that_of_the_layers():
    graph = chain([1.0, 2.0, 3.0, 2.0, 5.0], 300)
    assert period(graph, range(graph.forward)) == 5


def test_a_step_without_layers_has_none():
    graph = chain([float(one) for one in range(1500)], 1)
    assert period(graph, range(graph.forward)) == 0


def test_small_steps_are_searched_as_they_are():
    graph = chain([1.0, 2.0, 3.0], 20)
    assert period(graph, range(graph.forward)) == 0
