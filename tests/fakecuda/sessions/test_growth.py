"""Growth of live memory on pages: the first sentences of the summary of a leaking program."""

import json
import os

from tests import forked
from tests.fakecuda.programs import run_program

LOOP = """
import gc, json, torch, pgmo
from torch import nn

class Kept(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * 1.5
        ctx.result = y  # a cycle, which only Python's collector frees
        return y
    @staticmethod
    def backward(ctx, gradient):
        return gradient * 1.5

net = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)).cuda()
optimizer = torch.optim.AdamW(net.parameters())
with pgmo.optimize(tags=True) as session:
    for number in range(30):
        x = torch.randn(2048 if FIXED else 512 + 64 * number, 256, device="cuda")
        OUT
        y.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        session.step()
growth = session.summary().growth
print(json.dumps(growth and [growth.rate, growth.origin]))
"""


def growth(out, *, fixed=True):
    return run_program(LOOP.replace("OUT", out).replace("FIXED", str(fixed)))


def test_a_cycle_through_a_context_grows_at_a_line_of_the_program():
    rate, origin = growth("gc.disable(); y = Kept.apply(net(x))")
    assert rate >= 2048 * 256 * 4
    assert "(forward)" in origin


def test_longer_batches_and_what_remains_of_them_do_not():
    assert growth("y = net(x); last = y.detach()", fixed=False) is None


def leaking_script(folder):
    script = folder / "leaks.py"
    script.write_text(LEAKING)
    return str(script)


LEAKING = """\
import torch
weights = torch.nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.SGD(weights.parameters(), lr=0.1)
kept = []
for _ in range(16):
    kept.append(weights(torch.ones(512, 1024, device='cuda')))
    kept[-1].sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_pgmo_run_names_what_keeps_the_blocks_that_grow(tmp_path):
    command = ("-m", "pgmo", "run", "--who-keeps", leaking_script(tmp_path))
    ended = forked.run_command(tmp_path, *command, environment=os.environ)
    assert ended.exit_code == 0, ended.errors
    lines = ended.errors.splitlines()
    (first,) = [number for number, one in enumerate(lines) if "live memory grows" in one]
    assert lines[first + 1] == "  kept by    leaks.kept (list of 16 tensors, 32.0 MiB)"
    alive = [one for one in lines if one.startswith("  alive ")]
    assert alive[0] == "  alive      at the end: leaks.kept (list of 16 tensors, 32.0 MiB)"
    assert "  alive      at the end: parameters of leaks.weights (2 tensors, 4.00 MiB)" in alive


def test_pgmo_run_says_it_first(tmp_path):
    command = ("-m", "pgmo", "run", "--json", "a.json", leaking_script(tmp_path))
    ended = forked.run_command(tmp_path, *command, environment=os.environ)
    assert ended.exit_code == 0, ended.errors
    first, second = [line for line in ended.errors.splitlines() if line.startswith("pgmo: ")][-2:]
    assert first.startswith("pgmo: live memory grows by 2.00 MiB in each iteration (")
    assert "requested by leaks.py:6 in <module>, Linear, aten.addmm (forward)" in first
    assert "plain PyTorch" in second or "instead of" in second
    fields = json.loads((tmp_path / "a.json").read_text())
    assert fields["sessions"][0]["summary"]["growth"]["rate"] == 2 << 20
