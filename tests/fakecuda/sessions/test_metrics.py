"""Metrics of a CUDA device equal torch's statistics, which count pages."""

import pytest

import pgmo

torch = pytest.importorskip("torch")


def test_figures_are_those_of_torch():
    net = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU()).cuda()
    optimizer = torch.optim.Adam(net.parameters())
    found = []
    with pgmo.optimize() as session:
        for _ in range(14):
            net(torch.zeros(4096, 512, device="cuda")).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            session.step()
            found.append(pgmo.metrics())
        counts = torch.cuda.memory_stats()
    last = found[-1]
    assert last["pgmo/reserved"] == counts["reserved_bytes.all.current"]
    assert last["pgmo/peak_live"] == counts["allocated_bytes.all.peak"]
    assert last["pgmo/stuck"] == last["pgmo/reserved"] - last["pgmo/peak_live"]
    assert last["pgmo/from_plan"] > 0.9
    assert last["pgmo/growth"] == 0
    assert found[0]["pgmo/from_plan"] == 0
