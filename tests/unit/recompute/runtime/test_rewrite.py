import torch
from torch import fx, nn
from torch.nn import functional

from pgmo.recompute.capture import dropout
from pgmo.recompute.planners.schedule import simulate
from pgmo.recompute.runtime.offload.host import HostArenas
from pgmo.recompute.runtime.rewrite import split
from tests.unit.recompute.traced import Normed, by_name, captured


def called(module):
    return [
        str(node.target._overloadpacket)
        for node in module.graph.nodes
        if node.op == "call_function" and hasattr(node.target, "_overloadpacket")
    ]


def saved(step, module):
    """Return the names of the values that the forward half saves for the backward half."""
    (last,) = module.graph.find_nodes(op="output")
    return {node.name for node in last.args[0][step.outputs :] if node is not None}


def test_nothing_runs_twice_by_default():
    step = captured(Normed(), torch.ones(2, 3, 8, 8))
    forward, backward = split(step, simulate(step.graph), HostArenas())
    assert "aten.convolution" in called(forward)
    assert not {"aten.convolution", "aten.relu"} & set(called(backward))
    assert {"convolution", "relu"} <= saved(step, forward)


def test_the_backward_half_follows_the_schedule():
    step = captured(Normed(), torch.ones(2, 3, 8, 8))
    choice = [*by_name(step.graph, "relu"), *by_name(step.graph, "convolution")]
    schedule = simulate(step.graph, choice)
    forward, backward = split(step, schedule, HostArenas())
    names = [step.graph.operations[index].name for index in schedule.operations]
    planned = names[step.graph.forward :]
    planned.remove("gradients of the outputs")
    ran = [name for name in called(backward) if name in set(planned)]
    assert ran == planned
    assert not {"convolution", "relu"} & saved(step, forward)


def test_a_normalisation_that_runs_again_reads_the_new_statistics():
    step = captured(Normed(), torch.ones(2, 3, 8, 8))
    (index,) = by_name(step.graph, "_native_batch_norm_legit_functional")
    (relu,) = by_name(step.graph, "relu")
    _, backward = split(step, simulate(step.graph, {index, relu}), HostArenas())
    (again,) = [node for node in backward.graph.nodes if "legit_functional" in str(node.target)]
    old = {node.name for node in step.nodes[index][0].args[3:5]}
    assert old.isdisjoint(node.name for node in again.all_input_nodes)
    assert old.isdisjoint(node.name for node in backward.graph.find_nodes(op="placeholder"))


def test_a_dropout_that_runs_again_applies_the_mask_that_was_saved():
    class Net(nn.Linear):
        def forward(self, x):
            return functional.dropout(super().forward(x), 0.25).sigmoid().exp()

    step = captured(Net(64, 64), torch.ones(8, 64))
    (index,) = [
        number for number, one in enumerate(step.graph.operations) if one.name == dropout.APPLIED
    ]
    choice = {index, *by_name(step.graph, "sigmoid")}
    schedule = simulate(step.graph, choice)
    _, backward = split(step, schedule, HostArenas())
    assert [name for name in called(backward) if name != "aten.detach"][1:4] == [
        "aten.mul",
        "aten.mul",
        "aten.sigmoid",
    ]
    x = torch.randn(16, 64)
    (node,) = step.nodes[index - 1][:1]
    result, mask = torch.ops.aten.native_dropout(x, *node.args[1:])
    graph = fx.Graph()
    given = graph.placeholder("x"), graph.placeholder("mask")
    graph.output(dropout.apply_again(graph, node, *given)[-1])
    assert torch.equal(fx.GraphModule({}, graph)(x, mask), result)


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 48) for _ in range(2))

    def forward(self, x):
        for layer in self.layers:
            query, key, value = layer(x).view(2, 8, 4, 3, 4).permute(3, 0, 2, 1, 4)
            found = functional.scaled_dot_product_attention(query, key, value)
            x = x + found.transpose(1, 2).reshape(2, 8, 16).tanh()
        return x.square().mean()


def test_recomputed_operations_do_not_rerun_in_the_forward_half():
    step = captured(Attending(), torch.ones(2, 8, 16))
    forward, backward = split(
        step, simulate(step.graph, set(step.graph.candidates())), HostArenas()
    )
    plain, _ = split(step, simulate(step.graph), HostArenas())
    assert sorted(called(forward)) == sorted(called(plain))
    assert any("attention" in name for name in called(backward))


def test_a_rerun_before_a_dropout_runs_in_the_forward_half():
    class Before(nn.Linear):
        def forward(self, x):
            t = torch.tanh(super().forward(x))
            return functional.dropout(t.sin(), 0.5) + t

    step = captured(Before(8, 8), torch.ones(4, 8))
    (tanh,) = by_name(step.graph, "tanh")
    (applied,) = [
        index
        for index, one in enumerate(step.graph.operations)
        if one.name == dropout.APPLIED and index < step.graph.forward
    ]
    forward, _ = split(step, simulate(step.graph, reruns=((applied, tanh),)), HostArenas())
    assert called(forward).count("aten.tanh") == 2
