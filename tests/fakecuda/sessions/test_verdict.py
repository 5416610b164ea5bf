"""The verdict's figure for plain PyTorch, compared with plain PyTorch in another process."""

import json
import os

import pytest

from tests import forked

MIB = 1 << 20

SCRIPT = """
import json, random, sys
import torch
from torch import nn

scenario, mode = sys.argv[1:]
chance = random.Random(0)

def train(layers, optimizer, length):
    hidden = torch.zeros(length, 512, device="cuda")
    for layer in layers:
        hidden = layer(hidden)
    hidden.square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()

def make():
    layers = nn.ModuleList([nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(4)])
    layers.cuda()
    return layers, torch.optim.Adam(layers.parameters())

def lengths():
    parts = make()
    for _ in range(10):
        train(*parts, chance.randrange(2000, 12000))
        yield

def evaluated():
    layers, optimizer = make()
    for epoch in range(3):
        for _ in range(4):
            train(layers, optimizer, 4000)
            yield
        kept = torch.zeros(0, 512, device="cuda")
        with torch.no_grad():
            for _ in range(6):
                found = layers[0](torch.zeros(chance.randrange(2000, 8000), 512, device="cuda"))
                kept = torch.cat([kept, found])
        torch.cuda.empty_cache()

def kept():
    layers, optimizer = make()
    leaked = []
    for at in range(8):
        train(layers, optimizer, 3000)
        leaked.append(torch.zeros(11 + at, MIB // 4, device="cuda"))
        yield

def refused():
    layers, optimizer = make()
    for _ in range(6):
        train(layers, optimizer, 3000)
        try:
            torch.empty(6 << 30, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError:
            pass
        yield

def graphs():
    layers, optimizer = make()
    graphed = {}
    for at in range(9):
        length = (1000, 2000, 3000)[at % 3]
        if length not in graphed:
            sample = torch.zeros(length, 512, device="cuda")
            graph = graphed[length] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph), torch.no_grad():
                layers[0](sample)
        graphed[length].replay()
        train(layers, optimizer, length)
        yield

def streams():
    layers, optimizer = make()
    side = torch.cuda.Stream()
    for _ in range(8):
        with torch.cuda.stream(side):
            batch = torch.zeros(chance.randrange(10, 60), MIB // 4, device="cuda")
        torch.cuda.current_stream().wait_stream(side)
        batch.record_stream(torch.cuda.current_stream())
        (batch * 2).sum()
        del batch
        train(layers, optimizer, chance.randrange(1000, 4000))
        yield

def pools():
    layers, optimizer = make()
    lasting = torch.cuda.MemPool()
    for at in range(8):
        passing = torch.cuda.MemPool()
        for pool in (passing, lasting):
            with torch.cuda.use_mem_pool(pool):
                batch = torch.zeros(chance.randrange(10, 60), MIB // 4, device="cuda")
                (batch * 2).sum()
                del batch
        del pool, passing
        if at % 3 == 2:
            torch.cuda.empty_cache()
        train(layers, optimizer, chance.randrange(1000, 4000))
        yield

MIB = 1 << 20
steps = globals()[scenario]
if mode == "late":
    import pgmo
    first = make()  # before the session, in the segments of PyTorch's own allocator
    with pgmo.optimize() as session:
        for _ in steps():
            session.step()
    from dataclasses import asdict
    verdict = asdict(session.summary().verdict)
else:
    first, verdict = make() if mode == "with_first" else None, None
    for _ in steps():
        pass
from pgmo.rehearsal import control
counted = torch.cuda.memory_stats()
print("FIGURES", json.dumps({
    "card": control.peak(0),
    "reserved": counted["reserved_bytes.all.peak"],
    "live": counted["requested_bytes.all.peak"],
    "verdict": verdict,
}))
"""


def run(tmp_path, scenario, mode, *, ours=False, card=8192, configuration=""):
    """Run the script; return its output, and the verdict if `pgmo run` runs it."""
    script, report = tmp_path / "train.py", tmp_path / "report.json"
    script.write_text(SCRIPT)
    pgmo = ["-m", "pgmo", "run", "--json", str(report)] if ours else []
    environment = {
        **os.environ,
        "FAKECUDA_BYTES": str(card * MIB),
        "FAKECUDA_DEVICES": "1",
        "PYTORCH_ALLOC_CONF": configuration,
    }
    ended = forked.run_command(
        tmp_path, *pgmo, str(script), scenario, mode, environment=environment
    )
    assert ended.exit_code == 0, ended.errors
    (line,) = [one for one in ended.output.splitlines() if one.startswith("FIGURES")]
    figures = json.loads(line.removeprefix("FIGURES"))
    if ours:
        figures["verdict"] = json.loads(report.read_text())["verdicts"]["cuda:0"]
    return figures


def check(plain, ours):
    """Check that the modelled peak is plain PyTorch's, and the counted peak that of the process."""
    verdict = ours["verdict"]
    assert verdict["wrong"] == []
    assert verdict["plain"] == pytest.approx(plain["reserved"], rel=0.01)
    assert verdict["live"] == pytest.approx(plain["live"], rel=0.01)
    assert verdict["live"] <= verdict["taken"]
    real, stated = (
        1 - taken / reserved
        for taken, reserved in (
            (ours["card"], plain["reserved"]),
            (verdict["taken"], verdict["plain"]),
        )
    )
    assert stated == pytest.approx(real, abs=0.03)
    said = verdict["sentence"]
    expected = "about the same" if abs(stated) < 0.03 else "less" if stated > 0 else "more"
    assert expected in said


@pytest.mark.parametrize(
    ("scenario", "options"),
    [
        ("lengths", {}),
        ("lengths", {"configuration": "expandable_segments:True"}),
        ("lengths", {"card": 400}),
        ("evaluated", {}),
        ("kept", {}),
        ("graphs", {}),
        ("streams", {}),
        ("pools", {}),
        ("pools", {"configuration": "expandable_segments:True"}),
        ("pools", {"card": 500}),
    ],
)
def test_pgmo_run_states_what_plain_pytorch_reserves(tmp_path, scenario, options):
    plain = run(tmp_path, scenario, "whole", **options)
    ours = run(tmp_path, scenario, "whole", ours=True, **options)
    check(plain, ours)


def test_requests_that_fail_on_both_sides_are_on_neither(tmp_path):
    plain = run(tmp_path, "refused", "whole", card=2048)
    ours = run(tmp_path, "refused", "whole", ours=True, card=2048)
    verdict = ours["verdict"]
    assert verdict["wrong"] == []
    assert verdict["plain"] == pytest.approx(plain["reserved"], rel=0.01)
    assert verdict["taken"] == ours["reserved"]
    assert "no room" not in verdict["sentence"]


def test_a_session_that_begins_late_includes_what_was_there(tmp_path):
    check(run(tmp_path, "lengths", "with_first"), run(tmp_path, "lengths", "late"))
