"""The suite on every adapter, without a GPU."""

import sys

import pytest

import pgmo
from tests.conformance.adapter_suite import *  # noqa: F403
from tests.conformance.subjects import CupyThroughTorch, FakeCupy, TorchCpu, TorchCudaWorld
from tests.unit import fake_cupy


def torch_cpu(request):
    pytest.importorskip("torch")
    return TorchCpu()


def torch_cuda(request):
    return TorchCudaWorld(request.getfixturevalue("world"), request.getfixturevalue("adapter"))


def cupy_itself(request):
    return FakeCupy(request.getfixturevalue("cupy"))


def cupy_through_torch(request):
    import torch

    world = request.getfixturevalue("world")
    patch = request.getfixturevalue("monkeypatch")
    made = fake_cupy.make()
    patch.setitem(sys.modules, "cupy", made)
    patch.setattr(torch.version, "cuda", "13.0")
    patch.setattr(torch.cuda, "is_available", lambda: True)
    patch.delattr(torch._C, "_cuda_cudaCachingAllocator_raw_alloc", raising=False)
    patch.setattr(
        torch.cuda,
        "caching_allocator_alloc",
        lambda size, device, stream: world.raw_alloc_with_stream(size, stream, device),
    )
    patch.setattr(torch.cuda, "caching_allocator_delete", world.raw_delete)
    made.cuda.set_allocator(pgmo.cupy_torch_allocator())
    return CupyThroughTorch(made, request.getfixturevalue("adapter"))


@pytest.fixture(params=[torch_cpu, torch_cuda, cupy_itself, cupy_through_torch])
def subject(request, monkeypatch):
    monkeypatch.setenv("PGMO_CHECK", "1")
    made = request.param(request)
    yield made
    made.free_all()
