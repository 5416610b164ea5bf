import importlib.util

import pytest

from pgmo.doctor.probe import ask

TORCH = """
import os, signal, sys, time
from types import SimpleNamespace
print("a library says hello")
__version__ = "9.9.9"
version = SimpleNamespace(cuda={cuda!r})
_C = SimpleNamespace(_GLIBCXX_USE_CXX11_ABI=True)
class cuda:
    @staticmethod
    def is_available():
        {available}
    @staticmethod
    def init():
        raise RuntimeError("the driver is too old")
    @staticmethod
    def device_count():
        return 2
    @staticmethod
    def get_device_properties(index):
        return SimpleNamespace(name=f"GPU {{index}}", total_memory=2**34, major=9, minor=0)
"""


@pytest.fixture
def torch(tmp_path, monkeypatch):
    """Return a function that puts a made-up torch on the path of started processes."""

    def make(text):
        (tmp_path / "torch").mkdir()
        (tmp_path / "torch" / "__init__.py").write_text(text)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
        monkeypatch.setenv("PGMO_CACHE_DIR", str(tmp_path / "cache"))

    return make


def test_devices_are_named(torch):
    torch(TORCH.format(cuda="13.0", available="return True"))
    found = ask()
    assert found["torch"]["version"] == "9.9.9"
    assert found["torch"]["cuda"] == "13.0"
    device = found["devices"][1]
    # Read from the driver if there is one, so the made-up torch does not decide it.
    assert device.pop("unified") in (None, True, False)
    assert device == {
        "index": 1,
        "name": "GPU 1",
        "memory": 2**34,
        "capability": "9.0",
        "context": None,  # the made-up torch has no free memory to compare
    }
    assert "failed" not in found


def test_a_crash_of_cuda_keeps_what_was_found_before(torch):
    torch(TORCH.format(cuda="13.0", available="os.kill(os.getpid(), signal.SIGSEGV)"))
    found = ask()
    assert found["failed"].startswith("ended with signal 11")
    assert found["torch"]["version"] == "9.9.9"
    assert "devices" not in found


def test_a_cuda_that_never_comes_back_is_ended(torch):
    torch(TORCH.format(cuda="13.0", available="time.sleep(600)"))
    found = ask(seconds=2)
    assert found["failed"] == "did not answer within 2 s"


def test_the_reason_why_there_is_no_gpu(torch):
    torch(TORCH.format(cuda="13.0", available="return False"))
    found = ask()
    assert found["cuda"] == {"error": "the driver is too old"}
    assert found["devices"] == []


def test_a_torch_that_cannot_be_imported(torch):
    torch("raise OSError('libcudart.so.99: cannot open shared object file')")
    assert ask()["torch"] == {"error": "OSError: libcudart.so.99: cannot open shared object file"}


def test_files_of_the_current_folder_are_not_taken_for_packages(tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong one')")
    (tmp_path / "torch.py").write_text("raise OSError('the wrong one')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert "wrong" not in str(ask())


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="needs torch")
def test_an_adapter_is_missing_until_it_is_built(tmp_path, monkeypatch):
    monkeypatch.setenv("PGMO_CACHE_DIR", str(tmp_path))
    assert ask()["cpu_adapter"]["state"] == "missing"
    assert not list(tmp_path.iterdir())  # asking writes no file
    built = ask(build=True)["cpu_adapter"]
    assert built["state"] == "built"
    with open(built["path"], "wb") as file:
        file.write(b"no library")
    assert ask()["cpu_adapter"]["state"] == "damaged"
