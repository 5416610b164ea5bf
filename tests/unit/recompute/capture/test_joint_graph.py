import pytest
import torch
from torch import nn
from torch.nn import functional

from pgmo.recompute.capture.memory_use.workspaces import OperatorMeasurement
from tests.unit.recompute.traced import Normed, by_name, captured


@pytest.fixture(scope="module")
def normed():
    return captured(Normed(), torch.ones(2, 3, 8, 8))


def test_statistics_belong_to_the_normalisation_and_are_saved(normed):
    graph = normed.graph
    (index,) = by_name(graph, "_native_batch_norm_legit_functional")
    written = [graph.values[value] for value in graph.operations[index].writes]
    assert [value.size for value in written] == [2 * 8 * 64 * 4, 32, 32, 32, 32]
    assert [value.pinned for value in written] == [False, True, True, True, True]
    assert [value.result for value in written] == [False, False, False, True, True]
    assert index in set(graph.candidates())


def test_the_counter_of_batches_never_runs_again(normed):
    graph = normed.graph
    (index,) = [one for one in by_name(graph, "add") if one < graph.forward]
    assert graph.operations[index].pinned


def test_parameters_and_their_views_are_given():
    step = captured(nn.Linear(4, 6), torch.ones(5, 4))
    graph = step.graph
    forward = [one.name for one in graph.operations[: graph.forward]]
    assert forward == ["aten.addmm"]
    assert all(graph.values[value].producer == -1 for value in graph.operations[0].reads)
    assert step.views  # the transposed weight


def test_views_are_the_storage_that_they_show():
    class Halves(nn.Linear):
        def forward(self, x):
            first, second = super().forward(x).sigmoid().chunk(2, 1)
            return (first * second).sum()

    graph = captured(Halves(4, 6), torch.ones(5, 4)).graph
    (sigmoid,), (product, *_) = by_name(graph, "sigmoid"), by_name(graph, "mul")
    assert graph.operations[product].reads == graph.operations[sigmoid].writes
    assert not by_name(graph, "split")


def test_gradients_of_the_outputs_come_between_the_passes():
    graph = captured(nn.Linear(4, 6), torch.ones(5, 4)).graph
    gradients = graph.operations[graph.forward]
    assert gradients.name == "gradients of the outputs"
    assert [graph.values[value].size for value in gradients.writes] == [5 * 6 * 4]


def test_gradients_and_outputs_live_to_the_end():
    graph = captured(nn.Linear(4, 6), torch.ones(5, 4)).graph
    results = sorted(value.size for value in graph.values if value.result)
    assert results == [6 * 4, 6 * 4 * 4, 5 * 6 * 4]


def test_random_operators_are_pinned():
    graph = captured(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), torch.ones(2, 4)).graph
    (index,) = by_name(graph, "native_dropout")
    assert graph.operations[index].pinned


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_attention_is_random_with_dropout_only(dropout):
    class Attention(nn.Linear):
        def forward(self, x):
            x = super().forward(x)
            return functional.scaled_dot_product_attention(x, x, x, dropout_p=dropout)

    graph = captured(Attention(8, 4), torch.ones(1, 2, 4, 8)).graph
    random = {one.name for one in graph.operations[: graph.forward] if one.pinned}
    fused = "aten._scaled_dot_product_flash_attention_for_cpu"
    assert bool(random) == bool(dropout)
    assert random or fused in {one.name for one in graph.operations}


def test_operations_know_their_modules(normed):
    graph = normed.graph
    assert {one.module for one in graph.operations[: graph.forward]} == {
        "conv",
        "act.0",
        "act.1",
        "",
    }
    (backward,) = by_name(graph, "convolution_backward")
    assert graph.operations[backward].module == "conv"


def test_workspaces_are_asked_for_node_by_node():
    step = captured(nn.Linear(4, 4), torch.ones(2, 4), measured=lambda _: OperatorMeasurement(64))
    operations = [one for one in step.graph.operations if one.name.startswith("aten")]
    assert {one.workspace for one in operations} == {64}
