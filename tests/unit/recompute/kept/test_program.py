import weakref

import pytest
import torch
from torch import fx

from pgmo.profiler.tagging import origin
from pgmo.recompute.kept.program import Compiled, SerializedProgram, written
from pgmo.recompute.kept.unfit import UnfitError
from pgmo.recompute.runtime.announce import ORIGIN
from pgmo.recompute.runtime.offload.host import Host

aten = torch.ops.aten


def program(steps, results, inputs=1):
    return SerializedProgram(inputs, steps, results, [["", "forward"]])


def test_a_graph_becomes_data_and_a_function_that_does_the_same():
    graph = fx.Graph()
    x = graph.placeholder("x")
    halves = graph.call_function(aten.split.Tensor, (x, 2), {"dim": 1})
    first = graph.call_function(__import__("operator").getitem, (halves, 0))
    made = graph.call_function(
        aten.full.default,
        ([3, 2], float("inf")),
        {"dtype": torch.float32, "device": torch.device("cpu"), "pin_memory": False},
    )
    lowest = graph.call_function(aten.minimum.default, (first, made))
    constant = graph.get_attr("scale")
    scaled = graph.call_function(aten.mul.Tensor, (lowest, constant))
    graph.output((scaled, None, [first]))
    module = fx.GraphModule({"scale": torch.tensor([2.0, float("nan")])}, graph)
    again = SerializedProgram.of_data(written(module).as_data())
    value = torch.arange(12.0).reshape(3, 4)
    given = [value]
    scaled, nothing, (first,) = Compiled(again, Host()).run(given)
    assert given == []
    assert nothing is None
    assert torch.equal(first, value[:, :2])
    expected = value[:, :2] * torch.tensor([2.0, float("nan")])
    assert torch.equal(scaled[:, 0], expected[:, 0])
    assert scaled[:, 1].isnan().all()


def test_values_die_with_their_last_use():
    steps = [["aten.neg.default", [{"n": 0}], {}, 0], ["aten.neg.default", [{"n": 1}], {}, 0]]
    compiled = Compiled(program(steps, {"t": [{"n": 2}]}), Host())
    given = [torch.ones(3)]
    gone = weakref.ref(given[0])
    states = []

    class Watching(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            states.append(gone() is None)
            return func(*args, **(kwargs or {}))

    with Watching():
        (result,) = compiled.run(given)
    assert torch.equal(result, torch.ones(3))
    assert states == [False, True]


def test_whoever_records_learns_whose_an_operator_is():
    graph = fx.Graph()
    x = graph.placeholder("x")
    negative = graph.call_function(aten.neg.default, (x,))
    negative.meta[ORIGIN] = ("layers.0", "recompute")
    graph.output((negative,))
    compiled = Compiled(written(fx.GraphModule({}, graph)), Host())
    said = []
    original = aten.neg.default

    class Watching(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is original:
                said.append(origin.said())
            return func(*args, **(kwargs or {}))

    with origin.listen(), Watching():
        compiled.run([torch.ones(2)])
    assert said == [("layers.0", "recompute")]


@pytest.mark.parametrize(
    "steps",
    [
        [["os.system.default", ["true"], {}, 0]],
        [["aten.nothing.default", [{"n": 0}], {}, 0]],
        [["aten.neg", [{"n": 0}], {}, 0]],
        [["host._copy", [{"n": 0}], {}, 0]],
        [["aten.neg.default; import os", [{"n": 0}], {}, 0]],
        [["aten.neg.default", [{"n": 1}], {}, 0]],
        [["aten.neg.default", [{"n": -1}], {}, 0]],
        [["aten.neg.default", [{"n": 0}], {"x=1, y": 1}, 0]],
        [["aten.neg.default", [{"z": 0}], {}, 0]],
        [["aten.full.default", [{"l": [1]}, 0], {"dtype": {"a": "load"}}, 0]],
    ],
)
def test_what_is_no_operator_or_argument_is_refused(steps):
    with pytest.raises(UnfitError):
        Compiled(program(steps, {"t": [{"n": 0}]}), Host())


def test_functions_of_others_and_large_tensors_are_not_kept():
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(print, (x,)),))
    with pytest.raises(UnfitError, match="no operator"):
        written(fx.GraphModule({}, graph))
    graph = fx.Graph()
    graph.output((graph.get_attr("table"),))
    with pytest.raises(UnfitError, match="holds a tensor"):
        written(fx.GraphModule({"table": torch.zeros(1 << 20)}, graph))
