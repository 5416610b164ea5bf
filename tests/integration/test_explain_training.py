"""Tests of explanations of recordings of a small network, with and without planted faults."""

import warnings

import pytest

import pgmo
from pgmo.cli.main import main
from pgmo.report.findings.attribution import alive
from pgmo.report.summary import explain

torch = pytest.importorskip("torch")
nn, functional = torch.nn, torch.nn.functional


def record(folder, *, keep=None, optimizer=torch.optim.SGD) -> str:
    """Train for ten iterations, and return the path of the saved profile."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    steps = optimizer(net.parameters(), lr=1e-3)
    kept = []

    def step():
        inputs, labels = torch.randn(32, 64), torch.randint(0, 10, (32,))
        steps.zero_grad()
        hidden = net[1](net[0](inputs))
        loss = functional.cross_entropy(net[2](hidden), labels)
        loss.backward()
        steps.step()
        if keep == "loss":
            kept.append(loss)
        elif keep == "activation":
            kept.append(hidden.detach())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pgmo.optimize(device="cpu", save=str(folder), model_name="net") as session:
            for _ in range(10):
                with session.iteration():
                    step()
    assert session.profile.steady
    return str(folder / "net.pgmoprof")


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_a_clean_loop_has_no_leaks(tmp_path, optimizer):
    path = record(tmp_path, optimizer=optimizer)
    explained = explain(pgmo.Profile.load(path))
    assert explained.leaks.judged
    assert explained.leaks.found == ()
    assert main(["stats", "--leaks", path, "--check"]) == 0


def test_a_list_of_losses_is_found_and_the_advice_is_item(tmp_path):
    path = record(tmp_path, keep="loss")
    explained = explain(pgmo.Profile.load(path))
    (leak,) = explained.leaks.found
    assert (leak.growth, leak.tag.phase) == (4.0, "forward")
    assert "loss" in leak.tag.op
    assert any("loss.item()" in hint.text for hint in explained.hints)
    assert main(["stats", "--leaks", path, "--check"]) == 3


def test_the_peak_of_a_recording_adds_up_however_it_is_counted(tmp_path):
    profile = pgmo.Profile.load(record(tmp_path, optimizer=torch.optim.Adam))
    plan = pgmo.Plan.load(tmp_path / "net.pgmoplan")
    explained = explain(profile, plan, top=3)
    for holders in explained.holders.values():
        assert sum(holder.size for holder in holders) == profile.max_load()
    assert (alive(profile, explained.peak.tick) * profile.size).sum() == profile.max_load()
    # On the CPU, Adam updates one parameter at a time, so its temporaries are no cause.
    assert "The optimizer's temporaries make the peak" not in [
        hint.title for hint in explained.hints
    ]
    assert explained.plan.arena == plan.arena
