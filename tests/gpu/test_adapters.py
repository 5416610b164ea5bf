"""The suite for all adapters on a device: PyTorch's (also over the stub), and CuPy's."""

import pytest

from tests.conformance.adapter_suite import *  # noqa: F403
from tests.conformance.subjects import Cupy, TorchCuda
from tests.gpu.device import why_not, why_not_cupy


def torch_cuda():
    if why_not():
        pytest.skip(why_not())
    return TorchCuda()


def cupy_itself():
    if why_not_cupy():
        pytest.skip(why_not_cupy())
    import cupy

    streams = (cupy.cuda.Stream.null, *(cupy.cuda.Stream(non_blocking=True) for _ in range(2)))
    return Cupy(cupy, streams)


@pytest.fixture(params=[torch_cuda, cupy_itself])
def subject(request, monkeypatch):
    monkeypatch.setenv("PGMO_CHECK", "1")
    made = request.param()
    yield made
    made.free_all()
