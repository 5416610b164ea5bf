import subprocess
import sys
from pathlib import Path

import pytest

# Imported here, because pytester forgets the modules that its runs import. A second engine in this
# process would find the adapter of the first one under PyTorch.
import pgmo.allocator.adapters.torch_cpu
import pgmo.integrations.pytest_plugin.limit  # noqa: F401
from pgmo.integrations.pytest_plugin.recording import join_names
from pgmo.profiler.profile import Profile

pytest.importorskip("torch")

pytest_plugins = ("pytester",)

TESTS = Path(__file__).with_name("memory_tests.py").read_text()
PLUGIN = ("-p", "pgmo.integrations.pytest_plugin", "-p", "no:cacheprovider")


@pytest.fixture
def run(pytester):
    pytester.makepyfile(test_memory=TESTS)
    return lambda *arguments: pytester.runpytest_inprocess(*PLUGIN, *arguments)


def test_each_marked_test_passes_or_says_why(run):
    done = run("-k", "not parts")
    done.assert_outcomes(passed=2, failed=5)
    done.stdout.fnmatch_lines(
        [
            "test_memory.py::test_beyond holds * at once on cpu, * more than max_memory allows "
            "(100 KiB).",
            "At the peak, by module:",
            "*Net*",
            "At the peak, by operator:",
            "*aten.*",
            "There is no folder *",
        ]
    )
    done.stdout.fnmatch_lines(["*AssertionError: two and two"])
    done.stdout.fnmatch_lines(['*write max_memory("300 MiB") or *, not *limit=3)'])
    done.stdout.fnmatch_lines(["*cannot read 'four' as a size*"])
    done.stdout.fnmatch_lines(["*a session of pgmo was opened while pgmo recorded this pass*"])


def test_grown_modules_and_operators_are_named(run, pytester, monkeypatch):
    run("-k", "beyond", "--pgmo-save", "base")
    monkeypatch.setenv("PGMO_TEST_WIDTH", "300")
    done = run("-k", "beyond", "--pgmo-base", "base")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        [
            "Before (*base/test_memory/test_beyond.pgmoprof) it was *. Grown since then:",
            "  module Net.last: 516 KiB -> 605 KiB (+88.7 KiB)",
            "  operator aten.relu: 512 KiB -> 600 KiB (+88.0 KiB)",
        ]
    )


def test_the_base_may_stand_in_the_configuration(run, pytester):
    pytester.makeini("[pytest]\npgmo_base = memory")
    done = run("-k", "beyond")
    done.stdout.fnmatch_lines(["There is no *memory/test_memory/test_beyond.pgmoprof*"])


def test_parts_of_a_test_are_recorded_alike_and_saved(run, pytester):
    run("-k", "parts", "--pgmo-save", "new").assert_outcomes(passed=1)
    one, two = (
        Profile.load(pytester.path / f"new/test_memory/test_parts.{name}.pgmoprof")
        for name in ("one", "two")
    )
    assert one.fingerprint == two.fingerprint
    assert {tag.module for tag in one.tags} >= {"Net.first", "Net.last"}
    assert one.meta.model == "test_parts.one"


def test_profiles_do_not_depend_on_the_order_of_tests(run, pytester):
    run("-k", "within or beyond", "--pgmo-save", "one")
    run("-k", "beyond", "--pgmo-save", "two")
    one, two = (
        Profile.load(pytester.path / folder / "test_memory/test_beyond.pgmoprof")
        for folder in ("one", "two")
    )
    assert one.fingerprint == two.fingerprint
    assert one.end.tolist() == two.end.tolist()


def test_each_test_has_a_profile_of_its_own(tmp_path):
    tests = ["step", "step[a/b]", "step[a_b]", "step[a:b]", f"step[{'x' * 300}]", f"{'é' * 300}"]
    names = [join_names("test_net.py", f"test_{one}") for one in tests]
    assert len(set(names)) == len(tests)
    assert names[0] == "test_net/test_step"
    (tmp_path / "test_net").mkdir()
    for name in names:
        Profile.from_columns(size=[8], start=[0], end=[1], ticks=1).save(
            tmp_path / f"{name}.pgmoprof"
        )


def test_without_a_marker_nothing_is_imported():
    program = (
        "import sys, pytest\n"
        "before = set(sys.modules)\n"
        "import pgmo.integrations.pytest_plugin\n"
        "new = {name for name in set(sys.modules) - before if not name.startswith('pgmo')}\n"
        "assert not new & {'torch', 'numpy', 'rich', 'platformdirs'}, new\n"
        "assert 'pgmo._core' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
