"""CuPy through PyTorch's CUDA allocator, both replaced by fakes.

Tests with the real allocator are in tests/fakecuda/sessions/test_cupy.py.
"""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

import pgmo
from pgmo.allocator.adapters.cupy_through_torch import quick_request
from pgmo.errors import AdapterError
from tests.unit.fake_cupy import alloc

torch = pytest.importorskip("torch")


@pytest.fixture
def through_torch(cupy, monkeypatch):
    """Yield the live blocks of the fake PyTorch: bytes, device and stream by address."""
    living = {}

    def request(size, device, stream):
        address = 4096 * (len(living) + 1)
        living[address] = size, device, stream
        return address

    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.delattr(torch._C, "_cuda_cudaCachingAllocator_raw_alloc", raising=False)
    monkeypatch.setattr(torch.cuda, "caching_allocator_alloc", request)
    monkeypatch.setattr(torch.cuda, "caching_allocator_delete", living.pop)
    cupy.cuda.set_allocator(pgmo.cupy_torch_allocator())
    return living


def test_it_is_an_allocator_without_a_session_too(cupy, through_torch):
    block = alloc(cupy, 3000)
    assert block.mem.size == 3000
    assert through_torch == {block.ptr: (3000, 0, 0)}
    assert alloc(cupy, 0).ptr == 0
    with cupy.cuda.Stream(1):  # another handle of the default stream
        other = alloc(cupy, 100)
    assert through_torch[other.ptr] == (100, 0, 0)
    del block, other
    assert through_torch == {}


@pytest.mark.usefixtures("through_torch")
def test_the_per_thread_default_stream_is_refused(cupy):
    with cupy.cuda.Stream(2), pytest.raises(AdapterError, match="unset CUPY_CUDA_PTDS"):
        alloc(cupy, 100)


@pytest.mark.usefixtures("through_torch")
def test_missing_cuda_or_cupy_is_reported(monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(AdapterError, match="was built without CUDA"):
        pgmo.cupy_torch_allocator()
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(AdapterError, match="pip install cupy"):
        pgmo.cupy_torch_allocator()


def test_the_device_is_made_current_only_where_it_is_not():
    native = SimpleNamespace(
        _cuda_cudaCachingAllocator_raw_alloc=lambda size, stream: ("bare", size, stream),
        _cuda_getDevice=lambda: 1,
    )

    def thorough(size, device, stream):
        return "thorough", size, device, stream

    known = SimpleNamespace(_C=native, cuda=SimpleNamespace(caching_allocator_alloc=thorough))
    assert quick_request(known)(100, 1, 7) == ("bare", 100, 7)
    assert quick_request(known)(100, 0, 7) == ("thorough", 100, 0, 7)
    known._C = None  # a torch without these functions
    assert quick_request(known) is thorough


def test_arrays_that_outlive_the_interpreter():
    program = (
        "import sys, torch\n"
        "from tests.unit import fake_cupy\n"
        "cupy = sys.modules['cupy'] = fake_cupy.make()\n"
        "torch.version.cuda, torch.cuda.is_available = '13.0', lambda: True\n"
        "torch.cuda.init = lambda: None\n"
        "torch._C._cuda_cudaCachingAllocator_raw_alloc = None\n"
        "torch.cuda.caching_allocator_alloc = lambda size, device, stream: 4096\n"
        "torch.cuda.caching_allocator_delete = lambda address: print('freed', address)\n"
        "import pgmo\n"
        "cupy.cuda.set_allocator(pgmo.cupy_torch_allocator())\n"
        "del torch\n"
        "fake_cupy.alloc(cupy, 1000)\n"
        "class Late: pass\n"
        "sys.late = [fake_cupy.alloc(cupy, 1000), Late()]\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "freed 4096\n", "")
