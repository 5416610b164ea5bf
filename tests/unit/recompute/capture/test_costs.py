import pytest
import torch
from torch import nn

from pgmo.recompute.capture.memory_use.costs import modelled, operator_name
from tests.unit.recompute.traced import captured


def costs(module, *inputs):
    step = captured(module, *inputs)
    return {operator_name(nodes[0]): modelled(nodes[0]) for nodes in step.nodes if nodes}


def test_a_product_costs_its_arithmetic_and_its_traffic():
    found = costs(nn.Linear(40, 60, bias=False), torch.ones(50, 40))
    moved = 4 * (40 * 60 + 50 * 40 + 50 * 60)
    assert found["aten.mm"] == pytest.approx(2 * 40 * 50 * 60 / 1e11 + moved / 1e10)


def test_an_elementwise_operator_costs_its_traffic():
    found = costs(nn.Sequential(nn.Linear(4, 6), nn.ReLU()), torch.ones(5, 4))
    assert found["aten.relu"] == pytest.approx(2 * 4 * 5 * 6 / 1e10)


def test_attention_costs_two_products():
    class Attention(nn.Linear):
        def forward(self, x):
            x = super().forward(x)
            return nn.functional.scaled_dot_product_attention(x, x, x)

    found = costs(Attention(8, 8), torch.ones(1, 2, 64, 8))
    (cost,) = [cost for name, cost in found.items() if name.endswith("attention_for_cpu")]
    assert cost > 2 * 2 * (2 * 64 * 64 * 8) / 1e11
