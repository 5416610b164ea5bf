"""`%load_ext pgmo` and `%%pgmo` in a real IPython, without a kernel."""

import subprocess
import sys

import pytest

pytest.importorskip("torch")
interactive = pytest.importorskip("IPython.core.interactiveshell")

SETUP = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 4))
optimizer = torch.optim.Adam(model.parameters())
"""
LOOP = """
for _ in range(10):
    model(torch.randn(16, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    MARK
"""


@pytest.fixture
def shell(monkeypatch):
    from traitlets.config import Config

    options = Config()
    options.HistoryManager.enabled = False
    interactive.InteractiveShell.clear_instance()
    made = interactive.InteractiveShell.instance(config=options)
    made.run_cell("%load_ext pgmo").raise_error()
    made.run_cell(SETUP).raise_error()
    yield made
    interactive.InteractiveShell.clear_instance()


@pytest.fixture
def shown(monkeypatch):
    """What cells display, as HTML."""
    import IPython.display

    told = []
    monkeypatch.setattr(IPython.display, "display", lambda one: told.append(one._repr_html_()))
    return told


def test_an_unchanged_loop_is_served_by_the_steps_of_its_optimizer(shell, shown):
    shell.run_cell("%%pgmo --device cpu\n" + LOOP.replace("MARK", "")).raise_error()
    session = shell.user_ns["session"]
    assert session.phase == "closed"
    assert session.counted().iterations == 10
    assert session.history[-1].phase == "replay"
    assert session.history[-1].hit_rate == 1
    assert len(shown) == 1
    assert str(session.summary().verdict) in shown[0]


def test_a_cell_that_names_the_session_marks_iterations_itself(shell, shown):
    shell.run_cell(
        "%%pgmo --device cpu --name mine\n" + LOOP.replace("MARK", "mine.step()")
    ).raise_error()
    assert shell.user_ns["mine"].counted().iterations == 10
    assert "session" not in shell.user_ns


def test_each_cell_has_a_session_of_its_own(shell, shown):
    cell = "%%pgmo --device cpu\n" + LOOP.replace("MARK", "")
    shell.run_cell(cell).raise_error()
    first = shell.user_ns["session"]
    shell.run_cell(cell).raise_error()
    second = shell.user_ns["session"]
    assert first is not second
    assert second.counted().iterations == 10
    assert first.counted().iterations == 10  # no hook of the first was left


def test_an_optimizer_that_has_gone_is_not_waited_for(shell, shown):
    made = "optimizer = torch.optim.Adam(model.parameters())\n"
    loop = LOOP.replace("range(10)", "range(5)").replace("MARK", "")
    shell.run_cell("%%pgmo --device cpu\n" + 2 * (made + loop)).raise_error()
    assert shell.user_ns["session"].counted().iterations == 10


def test_a_cell_that_fails_closes_its_session(shell, shown):
    shell.run_cell("%%pgmo --device cpu\n" + LOOP.replace("MARK", "1 / 0"))
    assert shell.user_ns["session"].phase == "closed"
    shell.run_cell("optimizer.step()").raise_error()
    assert shell.user_ns["session"].counted().iterations == 1


def test_a_line_that_cannot_be_read_is_an_error_of_the_cell(shell):
    from pgmo.errors import OptionError

    for line in ("--nonsense", "--plan 'a"):
        with pytest.raises(OptionError, match="%%pgmo"):
            shell.run_cell(f"%%pgmo {line}\n1").raise_error()


def test_nothing_else_imports_ipython():
    code = (
        "import sys, pgmo, pgmo.cli.main, pgmo.allocator.optimize; print('IPython' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
