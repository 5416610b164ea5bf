import json
from itertools import pairwise

import pytest
import torch
from torch import nn

import pgmo


@pytest.fixture(scope="module")
def plan():
    layers = [nn.Linear(8, 64), nn.Sigmoid(), nn.Dropout(), nn.Linear(64, 64), nn.GELU()]
    model = nn.Sequential(*layers, nn.Linear(64, 64), nn.Sigmoid(), nn.Linear(64, 1))
    model, plan = pgmo.recompute(model, torch.ones(256, 8), "min")
    model(torch.ones(256, 8)).sum().backward()
    return plan


def test_the_figures_are_consistent(plan):
    numbers = json.loads(json.dumps(plan.as_dict()))
    assert numbers["peak"] == plan.schedule.peak < numbers["default_peak"]
    assert numbers["measured_peak"] == plan.measured_peak
    assert numbers["budget"] == "min"
    assert {one["operation"] for one in numbers["recomputed"]} == set(plan.recomputed)
    assert sum(one["share"] for one in numbers["recomputed"]) == pytest.approx(plan.overhead)
    assert numbers["forward_operations"] == plan.graph.forward


def test_the_explanation_names_modules_peaks_and_pinned_operators(plan):
    text = plan.explain()
    assert "in the original model" in text
    assert "A real step took" in text
    modules = {plan.graph.operations[index].module for index in plan.recomputed}
    assert all(f"  {module}: " in text for module in modules)
    assert "The peak lies at" in text
    assert "native_dropout" in text
    assert f"{100 * plan.overhead:.1f} % of the forward pass's time" in text


def test_the_curve_falls(plan):
    curve = plan.curve(points=3, time_limit=0.5)
    rows = curve.as_rows()
    assert rows[-1]["peak"] <= plan.default_peak
    assert rows[-1]["overhead"] == 0
    assert all(
        one["peak"] < other["peak"] and one["overhead"] > other["overhead"]
        for one, other in pairwise(rows)
    )
    assert len(str(curve).splitlines()) == len(rows) + 1


def test_a_curve_with_offload_says_what_its_overhead_consists_of():
    layers = [part for _ in range(4) for part in (nn.Linear(32, 32), nn.Tanh())]
    model = nn.Sequential(*layers, nn.Flatten(0), nn.Linear(32 * 256, 1))
    _, plan = pgmo.recompute(model, torch.ones(256, 32), 0.7, measure=False, offload=2e9)
    curve = plan.curve(points=3)
    rows = curve.as_rows()
    for row in rows:
        assert row["overhead"] == pytest.approx(row["rerun"] + row["waited"])
    assert rows[0]["host_bytes"] > rows[-1]["host_bytes"] == 0
    head, *lines = str(curve).splitlines()
    assert "run again" in head
    assert "on the host" in head
    assert len(lines) == len(rows)
    _, without = pgmo.recompute(model, torch.ones(256, 32), 0.7, measure=False)
    assert rows[0]["peak"] <= without.curve(points=2).as_rows()[0]["peak"]


def test_the_curve_can_be_drawn(plan, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "curve.png"
    figure = plan.curve(points=2, time_limit=0.2).plot(picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "peak" in figure.axes[0].get_xlabel()
