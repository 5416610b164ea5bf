import contextlib
import warnings

import pytest

from pgmo.allocator import optimize as module
from pgmo.allocator.managed import context
from pgmo.allocator.session.options import Options
from pgmo.allocator.session.session import Session, open_sessions
from pgmo.errors import AdapterError, SessionError
from pgmo.runner.supervision import RunOptions, Supervision
from tests.unit.allocator.simulated import LAYERS, Loop, SimulatedAdapter


def own_session(frameworks, device, **options):
    """Return a session as the program itself would open it."""
    framework = frameworks.get(device)
    if framework is None:
        framework = frameworks[device] = SimulatedAdapter()
        framework.device = device
    return Session(Options(**options), lambda: framework)


@pytest.fixture
def frameworks(monkeypatch):
    """Replace `optimize`, and return the simulated adapters of all sessions, by device."""
    made = {}
    monkeypatch.setattr(
        module, "optimize", lambda device, **options: own_session(made, device, **options)
    )
    yield made
    for opened in list(open_sessions._open.values()):
        opened.session().close()


def supervised(*devices, **options):
    """Return the supervision of a program that trains on some devices."""
    supervision = Supervision(RunOptions("train", **options))
    supervision.begin(list(devices))
    return supervision


def iterate(supervision, framework, times):
    loop = Loop(framework, LAYERS)
    for _ in range(times):
        loop()
        supervision.end_iteration()


def test_a_session_that_cannot_be_closed_does_not_end_the_program(frameworks, monkeypatch):
    def broken():
        raise RuntimeError("CUDA error")

    supervision = supervised("cpu", "cuda:1")
    first, second = supervision.sessions
    with monkeypatch.context() as patch:
        patch.setattr(second, "close", broken)
        with supervision.harmless():
            raise ValueError("odd")
    assert supervision.notes == [
        "ValueError: odd; the program continued without a session",
        "a session could not be closed: CUDA error",
    ]
    assert first.phase == "closed"


def test_a_session_for_each_device(frameworks, tmp_path):
    supervision = supervised("cpu", "cuda:1", save=str(tmp_path))
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
    supervised("cpu", "cuda:0", device="cpu")
    assert list(frameworks) == ["cpu"]


def test_unified_memory_and_budgets_are_for_cuda_devices(frameworks, monkeypatch):
    opened, unified = {}, []
    open_session = module.optimize

    def optimize(**options):
        opened[options["device"]] = options.pop("budget")
        return open_session(**options)

    @contextlib.contextmanager
    def managed(device):
        unified.append(device)
        yield
        unified.remove(device)

    monkeypatch.setattr(module, "optimize", optimize)
    monkeypatch.setattr(context, "managed", managed)
    supervision = supervised("cpu", "cuda:0", memory="managed", budget=1 << 30)
    assert opened == {"cpu": None, "cuda:0": 1 << 30}
    assert unified == ["cuda:0"]
    supervision.close()
    assert unified == []


def test_a_device_without_adapter_is_noted(frameworks):
    supervision = supervised("mps:0")
    supervision.end_iteration()
    assert supervision.sessions == []
    assert "are on mps:0, which pgmo does not serve" in supervision.notes[0]


def test_an_error_ends_pgmo_and_not_the_program(frameworks, monkeypatch):
    supervision = supervised("cpu")
    iterate(supervision, frameworks["cpu"], 3)

    def fail():
        raise ZeroDivisionError("planning")

    monkeypatch.setattr(supervision.sessions[0], "step", fail)
    iterate(supervision, frameworks["cpu"], 2)
    supervision.pause()
    supervision.resume()
    note = "ZeroDivisionError: planning; the program continued without a session"
    assert supervision.notes == [note]
    assert supervision.sessions[0].phase == "closed"


def test_a_session_that_cannot_open_is_noted(monkeypatch):
    def optimize(**options):
        raise AdapterError("no compiler")

    monkeypatch.setattr(module, "optimize", optimize)
    supervision = supervised("cpu")
    assert supervision.notes == ["no compiler; the program continued without a session"]


def test_interrupts_are_the_programs(frameworks, monkeypatch):
    supervision = supervised("cpu")

    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(supervision.sessions[0], "step", interrupt)
    with pytest.raises(KeyboardInterrupt):
        supervision.end_iteration()


def test_an_error_on_entering_a_session_is_noted(frameworks, monkeypatch):
    def refuse(self):
        raise SessionError("managed memory is in use")

    monkeypatch.setattr(Session, "__enter__", refuse)
    supervision = supervised("cpu")
    note = "managed memory is in use; the program continued without a session"
    assert supervision.notes == [note]


def test_a_pause_ends_at_the_end(frameworks):
    supervision = supervised("cpu")
    supervision.pause()
    with pytest.raises(SessionError, match="inside session"):
        supervision.sessions[0].step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        supervision.close()
    assert supervision.sessions[0].phase == "closed"


@pytest.mark.parametrize(("own", "other"), [("cpu", "cuda:0"), ("cuda:0", "cpu")])
def test_a_session_of_the_programs_leaves_other_devices_served(frameworks, own, other):
    with own_session(frameworks, own):
        supervision = supervised(other)
        iterate(supervision, frameworks[other], 8)
        assert supervision.sessions[0].history[-1].phase == "replay"
    assert supervision.notes == []
    assert not supervision.gave_up


@pytest.mark.parametrize("own", ["cpu", "cuda:0"])
def test_a_session_that_was_there_before_keeps_its_device_alone(frameworks, own):
    with own_session(frameworks, own) as session:
        supervision = supervised("cpu", "cuda:0")
        assert session.phase == "record"
        (other,) = supervision.sessions
        assert {own, other.device} == {"cpu", "cuda:0"}
        iterate(supervision, frameworks[other.device], 8)
        assert other.history[-1].phase == "replay"
    note = f"the script opened its own session on {own}, which serves it"
    assert supervision.notes == [note]
    assert supervision.gave_up


@pytest.mark.parametrize("paused", [False, True])
def test_a_session_that_comes_later_takes_its_device_alone(frameworks, paused):
    supervision = supervised("cpu", "cuda:0")
    if paused:
        supervision.pause()
    with own_session(frameworks, "cpu") as session:
        assert session.phase == "record"
        if paused:
            supervision.resume()
        iterate(supervision, frameworks["cuda:0"], 8)
    given_way, other = supervision.sessions
    assert (given_way.phase, other.phase) == ("closed", "replay")
    assert supervision.notes == [
        "the script opened its own session on cpu, which serves it",
    ]
    supervision.close()


def test_no_iterations_are_reported_without_a_served_device(frameworks):
    calls = []
    supervision = Supervision(RunOptions("train"), calls.append)
    supervision.begin(["cpu"])
    supervision.end_iteration()
    assert calls == [supervision]
    with own_session(frameworks, "cpu"):
        supervision.end_iteration()
        supervision.pause()
        supervision.resume()
    assert calls == [supervision]
    assert supervision.notes == ["the script opened its own session, which serves it"]
