import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pgmo.allocator.session.advice import HOW_TO_NAME
from pgmo.profiler.profile import Profile
from pgmo.runner.out_of_memory import (
    is_out_of_memory,
    look_at,
    print_saved_files,
    save_out_of_memory,
)
from tests.unit.allocator.simulated import LAYERS, Loop, SimulatedAdapter, open_session, run

MESSAGE = "CUDA error: out of memory"


def raised(function):
    with pytest.raises((ValueError, KeyError)) as caught:
        function()
    return caught.value


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError(MESSAGE),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    ],
)
def test_errors_for_want_of_memory(error):
    assert is_out_of_memory(error)


def test_torch_has_a_type_of_its_own():
    torch = pytest.importorskip("torch")
    assert is_out_of_memory(torch.OutOfMemoryError("full"))


@pytest.mark.parametrize(
    "error",
    [
        None,
        RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"),
        ValueError(MESSAGE),
        KeyboardInterrupt(),
    ],
)
def test_other_errors(error):
    assert not is_out_of_memory(error)


def test_an_error_that_was_raised_for_it():
    def wrap():
        try:
            raise MemoryError
        except MemoryError as error:
            raise ValueError("training failed") from error

    def in_passing():
        try:
            raise RuntimeError(MESSAGE)
        except RuntimeError:
            raise KeyError("while cleaning up")  # noqa: B904

    assert is_out_of_memory(raised(wrap))
    assert is_out_of_memory(raised(in_passing))


def test_causes_that_go_in_a_circle_end():
    one, other = ValueError(), ValueError()
    one.__cause__, other.__cause__ = other, one
    assert not is_out_of_memory(one)


def test_the_command_is_for_the_most_informative_file():
    files = [Path("a.pickle"), Path("a.pgmoprof"), Path("a.txt")]
    assert look_at(files) == "pgmo report a.pgmoprof"
    assert look_at([files[0], files[2]]) == "pgmo report a.pickle"
    assert look_at([files[2]]) is None
    assert look_at([Path("my runs/a.pgmoprof")]) == "pgmo report 'my runs/a.pgmoprof'"


def fail(folder, iterations=2, extra=None, last=None):
    """Run some iterations until memory runs out, and save files, as `pgmo run` does."""
    framework = SimulatedAdapter()
    with pytest.raises(MemoryError, match="no more"), open_session(framework) as session:
        try:
            more = None if extra is None else lambda: framework.request(extra)
            run(Loop(framework, LAYERS), session, iterations, extra=more)
            if last is not None:
                framework.request(last)
            raise MemoryError("no more")
        except MemoryError as error:
            print_saved_files(save_out_of_memory(error, [session], folder))
            raise
    return session


def test_a_block_that_ends_for_want_of_memory_keeps_what_is_known(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    fail(tmp_path / "kept", last=4711)
    profile = Profile.load(tmp_path / "kept" / "pgmo-oom-1.pgmoprof")
    assert profile.size[-1] == 4711
    text = (tmp_path / "kept" / "pgmo-oom-1.txt").read_text()
    assert text.startswith("MemoryError: no more\n")
    assert "2 iterations, 2 recorded" in text
    assert HOW_TO_NAME in text
    assert f"Next: pgmo report {tmp_path}/kept/pgmo-oom-1.pgmoprof" in capsys.readouterr().err


def test_growth_is_said_before_the_holders(tmp_path):
    session = fail(tmp_path, iterations=16, extra=2 << 20)
    (path,) = tmp_path.glob("*.txt")
    first = path.read_text().split("\n\n")[1]
    assert first.startswith(f"{session.device}: live memory grows by 2.00 MiB in each iteration")


def test_an_error_in_the_explanation_does_not_hide_that_of_the_program(tmp_path, monkeypatch):
    def explain(*_, **__):
        raise IndexError("index 3 is out of bounds")

    monkeypatch.setattr("pgmo.report.summary.explain", explain)
    fail(tmp_path)
    (path,) = tmp_path.glob("*.txt")
    lines = path.read_text().splitlines()
    errors = [line for line in lines if "IndexError: index 3 is out of bounds" in line]
    assert errors == [
        "The profile could not be explained, because pgmo failed: "
        "IndexError: index 3 is out of bounds"
    ]
    assert lines[0] == "MemoryError: no more"
    assert any("2 iterations, 2 recorded" in line for line in lines)
    assert list(tmp_path.glob("*.pgmoprof"))


def test_an_import_that_fails_does_not_hide_the_error_of_the_program(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pgmo.report.summary", None)
    fail(tmp_path)
    (path,) = tmp_path.glob("*.txt")
    text = path.read_text()
    assert text.startswith("MemoryError: no more\n")
    assert "could not be explained, because pgmo failed: ModuleNotFoundError: " in text


def test_the_explanation_does_not_wait_for_a_prediction(tmp_path, monkeypatch):
    def predict_reserved(_profile):
        raise AssertionError("this takes longest")

    monkeypatch.setattr("pgmo.report.summary.predict_reserved", predict_reserved)
    fail(tmp_path)
    (path,) = tmp_path.glob("*.txt")
    assert "as recorded:" in path.read_text()


def test_an_unwritable_folder_does_not_hide_the_error(tmp_path, capsys):
    (tmp_path / "kept").write_text("a file")
    fail(tmp_path / "kept")
    assert "could not be written" in capsys.readouterr().err


@pytest.mark.parametrize("works", [True, False])
def test_the_text_says_where_reserved_memory_is(tmp_path, monkeypatch, works):
    mib = 1 << 20
    block = {"size": 3 * mib, "requested_size": 3 * mib, "state": "active_allocated"}
    hole = {"size": 5 * mib, "requested_size": 0, "state": "inactive"}
    segment = {
        "device": 0,
        "address": 0,
        "total_size": 11 * mib,
        "stream": 0,
        "blocks": [block, hole, block],
    }

    def snapshot():
        if not works:
            raise RuntimeError("the device is in an error state")
        return [segment]

    cuda = SimpleNamespace(
        is_initialized=lambda: True,
        current_device=lambda: 0,
        mem_get_info=lambda _: (20 * mib, 64 * mib),
        memory_reserved=lambda _: 11 * mib,
        memory_snapshot=snapshot,
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    (path,) = save_out_of_memory(MemoryError("full"), [], tmp_path)
    text = path.read_text()
    assert ("cuda:0, after the error: of 11.0 MiB reserved" in text) == works
    if works:
        assert "5.00 MiB are not requested by any live block: 5.00 MiB between live" in text
        assert "33.0 MiB of the card are used outside of PyTorch" in text


@pytest.mark.parametrize("cause", ["", "Cause: Memory leaks: 3 MiB stay behind.\n"])
def test_the_cause_is_printed_before_the_files(tmp_path, capsys, cause):
    explanation = tmp_path / "pgmo-oom-0.txt"
    explanation.write_text(f"MemoryError: full\n\n{cause}Up to the failing request:\n")
    print_saved_files([explanation])
    first, *others = capsys.readouterr().err.splitlines()
    assert first == "pgmo: memory ran out; details are in these files"
    assert others[:-2] == cause.splitlines()
    assert others[-2:] == [f"Wrote {explanation}", f"Next: less {explanation}"]
