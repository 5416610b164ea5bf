"""Tests of the openings of real networks with real optimizers."""

import pytest

torch = pytest.importorskip("torch")

from pgmo.allocator.adapters.torch_cpu import torch_cpu  # noqa: E402
from pgmo.profiler.iterations.opening_profile import build_opening  # noqa: E402
from pgmo.profiler.iterations.step_finder import find_steady  # noqa: E402
from pgmo.profiler.recording import ALIVE, split  # noqa: E402
from tests.unit.profiler.networks import NETWORKS  # noqa: E402

OPTIMIZERS = {
    "adam": lambda parameters: torch.optim.Adam(parameters),
    "amsgrad": lambda parameters: torch.optim.AdamW(parameters, foreach=True, amsgrad=True),
    # The first step has fewer requests than later ones.
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
}


def record(model, shape, optimizer, turns=5):
    framework = torch_cpu()
    framework.install()
    try:
        framework.engine.start_recording()
        for _ in range(turns):
            loss = model(torch.randn(shape)).square().mean()
            optimizer.zero_grad()  # after the forward pass, through which gradients live
            loss.backward()
            optimizer.step()
            framework.engine.end_iteration()
        return split(framework.engine.events())
    finally:
        framework.engine.stop_recording()
        framework.engine.forget_recording()
        framework.uninstall()
        del loss


def state_bytes(optimizer):
    values = (value for state in optimizer.state.values() for value in state.values())
    return sorted(value.untyped_storage().nbytes() for value in values if torch.is_tensor(value))


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("name", NETWORKS)
def test_persistent_blocks_are_the_optimizers_state(name, kind):
    make, shape = NETWORKS[name]
    model = make()
    optimizer = OPTIMIZERS[kind](model.parameters())
    iterations = record(model, shape, optimizer)
    first = iterations[0]
    steady = find_steady(iterations)
    opening = build_opening(iterations, steady)
    assert steady.kind == "exact"
    assert sorted(steady.rows) == [1, 2, 3, 4]
    assert sorted(opening.size[opening.persistent].tolist()) == state_bytes(optimizer)
    assert opening.size.tolist() == first.size.tolist()
    # A block that is freed in the iteration keeps its end; one that is freed later wraps.
    ticks = len(first)
    inside = (first.gone != ALIVE) & (first.gone <= ticks)
    assert opening.end[inside].tolist() == first.gone[inside].tolist()
    assert opening.wrap.tolist() == ((first.gone != ALIVE) & (first.gone > ticks)).tolist()
    assert opening.wrap.sum() >= len(list(model.parameters()))  # at least the gradients
