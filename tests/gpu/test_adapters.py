"""The suite of adapters on a device or the stub: PyTorch on CUDA, and CuPy on a device."""

import sys

import pytest

import pgmo
from tests.conformance.adapter_suite import *  # noqa: F403
from tests.conformance.subjects import Cupy, CupyThroughTorch, TorchCuda
from tests.gpu.device import STUB, why_not, why_not_cupy
from tests.unit import fake_cupy


def torch_cuda(_):
    if why_not():
        pytest.skip(why_not())
    return TorchCuda()


def cupy_itself(_):
    if why_not_cupy():
        pytest.skip(why_not_cupy())
    import cupy

    streams = (cupy.cuda.Stream.null, *(cupy.cuda.Stream(non_blocking=True) for _ in range(2)))
    return Cupy(cupy, streams)


def cupy_through_torch(monkeypatch):
    """Return the subject of CuPy through PyTorch, with CuPy replaced on the stub."""
    if not STUB:
        pytest.skip("needs the stub: tests/gpu/test_cupy_and_torch.py has both frameworks")
    import torch

    cupy = fake_cupy.make()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    cupy.cuda.set_allocator(pgmo.cupy_torch_allocator())
    streams = (torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream())
    return CupyThroughTorch(cupy, tuple(cupy.cuda.Stream(one.cuda_stream) for one in streams))


@pytest.fixture(params=[torch_cuda, cupy_itself, cupy_through_torch])
def subject(request, monkeypatch):
    monkeypatch.setenv("PGMO_CHECK", "1")
    made = request.param(monkeypatch)
    yield made
    made.free_all()
