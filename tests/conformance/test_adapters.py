"""The suite of adapters for every adapter that needs neither a GPU nor the stub runtime."""

import pytest

from tests.conformance.adapter_suite import *  # noqa: F403
from tests.conformance.subjects import FakeCupy, TorchCpu


def torch_cpu(request):
    pytest.importorskip("torch")
    return TorchCpu()


def cupy_itself(request):
    return FakeCupy(request.getfixturevalue("cupy"))


@pytest.fixture(params=[torch_cpu, cupy_itself])
def subject(request, monkeypatch):
    monkeypatch.setenv("PGMO_CHECK", "1")
    made = request.param(request)
    yield made
    made.free_all()
