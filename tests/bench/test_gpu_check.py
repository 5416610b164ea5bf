"""Tests of the order and the time limits of `make gpu-check`, and of jobs for bench/gpu."""

import importlib.util
import sys

from tests.bench.scripts import BENCH, all_scripts
from tests.gpu import check
from tests.gpu.check import KNOWN, NOT_BEGUN, OWED, SCRIPTS, Step


def names(groups):
    return [[step.name for step in group] for group in groups]


def test_every_benchmark_of_a_gpu_has_its_time():
    parts = {SCRIPTS.get(name, name) for name in OWED | KNOWN} - {"tests"}
    assert parts == set(all_scripts(BENCH / "gpu"))


def test_owed_parts_come_first_and_end_within_nine_minutes(tmp_path):
    groups = check.plan(tmp_path)
    order = names(groups)
    assert order[: len(OWED) + 1] == [["build"], *([part] for part in OWED)]
    assert check.USUAL_BUILD_SECONDS + sum(OWED.values()) <= check.ALL_SECONDS < 9 * 60
    tests = next(group for group in order if "test_training" in group)
    assert "test_training_without_pages" in tests


def test_a_single_part_has_all_of_the_time(tmp_path):
    (group,) = check.plan(tmp_path, 520, only=("overhead",))
    assert [round(step.seconds) for step in group] == [520 - check.USUAL_BUILD_SECONDS]


def load(monkeypatch, path):
    """Import a script under a unique name, as bench/ and bench/gpu have scripts of equal names."""
    monkeypatch.syspath_prepend(str(path.parent))
    name = f"{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def test_recomputation_on_the_stub_asks_for_jobs_that_the_script_knows(monkeypatch):
    on_stub = load(monkeypatch, BENCH / "fakecuda_recompute.py")
    on_gpu = load(monkeypatch, BENCH / "gpu/recompute.py")
    for way in on_stub.WAYS.values():
        on_gpu.Job(workload="tiny", samples=4, **way)


def python(name, code, seconds, least=0.0):
    return Step(name, (sys.executable, "-c", code), seconds, least)


def test_a_part_ends_with_its_time_and_what_has_none_is_left_out(tmp_path, capsys):
    groups = [
        [python("quick", "print('{seconds}')", 20)],
        [python("failing", "raise SystemExit(3)", 20)],
        [python("endless", "import time; time.sleep(60)", 0.5)],
        [python("large", "", 100, least=90)],
    ]
    quick, failing, endless, large = check.run(groups, tmp_path, 60)
    assert (tmp_path / "quick.txt").read_text() == "14\n"
    assert (quick.failed, failing.failed, endless.failed, large.failed) == (0, 1, 1, 0)
    assert endless.state == "FAILED, took longer than it may"
    assert large.exit_code == NOT_BEGUN
    assert large.state.startswith("left out: ")
    assert "== failing: FAILED, exit code 3" in capsys.readouterr().out
