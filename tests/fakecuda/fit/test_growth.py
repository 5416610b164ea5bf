"""Scripts whose memory grows: answers about their last step agree with runs."""

import textwrap
from pathlib import Path

import pytest

import pgmo
from tests.fakecuda.fit.scripts import BEGIN, card, run, write

LEAK = f"""{BEGIN}
model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
kept = []
for step in range(given.steps):
    out = model(torch.randn(256, 1024).cuda())
    out.square().mean().backward()
    kept.append(out.detach())
    optimizer.step()
    optimizer.zero_grad()
"""

SPLATS = textwrap.dedent("""
    import torch
    from torch import nn

    splats = nn.Parameter(torch.randn(20000, 59).cuda())
    optimizer = torch.optim.Adam([splats])

    def densify():
        global splats
        group = optimizer.param_groups[0]
        state = optimizer.state.pop(splats)
        chosen = torch.arange(0, len(splats), 4).cuda()
        splats = nn.Parameter(torch.cat([splats, splats[chosen]]).detach())
        for name in ("exp_avg", "exp_avg_sq"):
            state[name] = torch.cat([state[name], torch.zeros(len(chosen), 59).cuda()])
        group["params"] = [splats]
        optimizer.state[splats] = state

    for step in range(30000):
        (splats.square().sum()).backward()
        optimizer.step()
        optimizer.zero_grad()
        if step >= BEGIN and step % 4 == 0:
            densify()
""")


def test_a_growing_script_fits_until_a_step(tmp_path: Path) -> None:
    path, where = write(tmp_path, LEAK), card(260)
    found = pgmo.fit([path, "--steps", "5000"], card=where)
    assert not found.is_fit
    assert found.growing is not None
    assert found.growing.growth.rate == 256 * 1024 * 4
    assert found.growing.growth.planned == 5000
    last = found.growing.last_step
    # Pages are filled in part, and a rehearsal that counts arithmetic needs more memory.
    for steps, fits in ((last - 16, True), (last + 16, False)):
        assert run(path, steps, where, "pgmo", "--steps").fits is fits
    shorter = pgmo.fit([path, "--steps", str(last - 16)], card=where)
    assert shorter.is_fit
    assert "which is included for at most" in shorter.sentence


def test_parameters_that_become_more_are_growth(tmp_path: Path) -> None:
    found = pgmo.fit(write(tmp_path, SPLATS.replace("BEGIN", "0")), card=card(1 << 12))
    assert not found.is_fit
    assert found.growing is not None
    assert found.growing.growth.has_more_parameters
    assert "as parameters grow from" in found.sentence


@pytest.mark.slow
def test_parameters_that_are_replaced_later_are_named(tmp_path: Path) -> None:
    code = SPLATS.replace("BEGIN", "20000")
    found = pgmo.fit(write(tmp_path, code), card=card(1 << 12))
    assert found.is_fit
    line = code.splitlines().index('    group["params"] = [splats]') + 1
    assert found.missed == (f"parameters replaced in densify() at train.py:{line}",)
