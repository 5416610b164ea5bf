from dataclasses import dataclass

import pytest

torch = pytest.importorskip("torch")

from pgmo.recompute.capture import workspaces  # noqa: E402
from pgmo.recompute.capture.meter import Section  # noqa: E402
from pgmo.recompute.planners.schedule import simulate  # noqa: E402
from pgmo.recompute.runtime.decide import Settings  # noqa: E402
from pgmo.recompute.runtime.execute import StepCompiler  # noqa: E402
from pgmo.recompute.runtime.rewrite import split  # noqa: E402
from tests.unit.recompute.traced import Normed, captured  # noqa: E402


@dataclass
class Measured:
    sections: list[Section]
    whole: Section


@pytest.fixture
def half(monkeypatch):
    monkeypatch.setattr(workspaces, "_known", {})
    step = captured(Normed(), torch.ones(2, 3, 8, 8))
    return split(step, simulate(step.graph))[0]


def measured(half, kept=0, taken=0):
    """As a meter would see a half in which the second operator takes and keeps bytes."""
    level, sections = 0, []
    nodes = [node for node in half.graph.nodes if node.op == "call_function"]
    for index, node in enumerate(nodes):
        net = workspaces.written(node) + kept * (index == 1)
        peak = net + taken * (index == 1)
        sections.append(Section(node.name, level, peak, net, 0.0))
        level += net
    return nodes[1], Measured(sections, Section("", 0, level + 7, level, 0.0))


def test_what_a_library_keeps_is_not_of_the_step(half):
    step = StepCompiler(Settings())
    node, seen = measured(half, kept=1 << 20)
    section = step._learn(half, seen)
    whole = measured(half)[1].whole
    assert section.net == whole.net
    assert section.peak == whole.peak - 7
    assert not step.news
    assert workspaces.workspace(node) == 0


def test_what_an_operator_takes_and_returns_is_noted(half):
    step = StepCompiler(Settings())
    node, seen = measured(half, taken=1 << 20)
    assert step._learn(half, seen) == seen.whole
    assert step.news
    assert workspaces.workspace(node) == 1 << 20
