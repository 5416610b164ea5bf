import warnings

import pytest

from pgmo.allocator.session.options import Options
from pgmo.allocator.session.session import Session, open_sessions
from pgmo.errors import AdapterError, SessionError
from pgmo.runner import supervision as module
from pgmo.runner.supervision import RunOptions, Supervision
from tests.unit.allocator.simulated import LAYERS, Loop, SimulatedAdapter


@pytest.fixture
def frameworks(monkeypatch):
    """Sessions of simulated devices, by name."""
    made = {}

    def optimize(*, device, **options):
        framework = made[device] = SimulatedAdapter()
        framework.device = device
        return Session(Options(**options), lambda: framework)

    monkeypatch.setattr(module, "optimize", optimize)
    yield made
    for opened in list(open_sessions._open.values()):
        opened.session().close()


def iterate(supervision, framework, times):
    loop = Loop(framework, LAYERS)
    for _ in range(times):
        loop()
        supervision.end_iteration()


def test_a_session_for_each_device(frameworks, tmp_path):
    supervision = Supervision(RunOptions("train", save=str(tmp_path)))
    supervision.begin(["cpu", "cuda:1"])
    iterate(supervision, frameworks["cuda:1"], 8)
    supervision.close()
    fields = supervision.to_fields()
    assert [one["device"] for one in fields["sessions"]] == ["cpu", "cuda:1"]
    assert fields["sessions"][1]["iterations"][-1]["phase"] == "replay"
    assert {path.name for path in supervision.saved} >= {
        "train-cuda1.pgmoprof",
        "train-cuda1.pgmoplan",
    }


def test_the_device_that_was_asked_for_is_the_only_one(frameworks):
    supervision = Supervision(RunOptions("train", device="cpu"))
    supervision.begin(["cpu", "cuda:0"])
    assert list(frameworks) == ["cpu"]


def test_unified_memory_and_budgets_are_for_cuda_devices(frameworks, monkeypatch):
    opened = {}
    open_session = module.optimize

    def optimize(**options):
        opened[options["device"]] = (options.pop("memory"), options.pop("budget"))
        return open_session(**options)

    monkeypatch.setattr(module, "optimize", optimize)
    Supervision(RunOptions("train", memory="managed", budget=1 << 30)).begin(["cpu", "cuda:0"])
    assert opened == {"cpu": ("device", None), "cuda:0": ("managed", 1 << 30)}


def test_a_device_without_adapter_is_noted(frameworks):
    supervision = Supervision(RunOptions("train"))
    supervision.begin(["mps:0"])
    supervision.end_iteration()
    assert supervision.sessions == []
    assert "are on mps:0, which pgmo does not serve" in supervision.notes[0]


def test_an_error_ends_pgmo_and_not_the_program(frameworks, monkeypatch):
    supervision = Supervision(RunOptions("train"))
    supervision.begin(["cpu"])
    iterate(supervision, frameworks["cpu"], 3)

    def fail():
        raise ZeroDivisionError("planning")

    monkeypatch.setattr(supervision.sessions[0], "step", fail)
    iterate(supervision, frameworks["cpu"], 2)
    supervision.pause()
    supervision.resume()
    assert supervision.notes == ["ZeroDivisionError: planning; the program ran on without pgmo"]
    assert supervision.sessions[0].phase == "closed"


def test_a_session_that_cannot_open_is_noted(monkeypatch):
    def optimize(**options):
        raise AdapterError("no compiler")

    monkeypatch.setattr(module, "optimize", optimize)
    supervision = Supervision(RunOptions("train"))
    supervision.begin(["cpu"])
    assert supervision.notes == ["no compiler; the program ran on without pgmo"]


def test_interrupts_are_the_programs(frameworks, monkeypatch):
    supervision = Supervision(RunOptions("train"))
    supervision.begin(["cpu"])

    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(supervision.sessions[0], "step", interrupt)
    with pytest.raises(KeyboardInterrupt):
        supervision.end_iteration()


def test_a_pause_ends_at_the_end(frameworks):
    supervision = Supervision(RunOptions("train"))
    supervision.begin(["cpu"])
    supervision.pause()
    with pytest.raises(SessionError, match="inside session"):
        supervision.sessions[0].step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        supervision.close()
    assert supervision.sessions[0].phase == "closed"
