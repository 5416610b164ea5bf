"""Tests of PyTorch and CuPy in one process on a device, with the same bits."""

import gc

import pytest

import pgmo
from tests.gpu.device import why_not, why_not_cupy

REASON = why_not() or why_not_cupy()
if not REASON:
    import cupy
    import torch

pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)

SIZE = 1 << 20


@pytest.fixture
def through_torch():
    """Let CuPy allocate through PyTorch's allocator."""
    before = cupy.cuda.get_allocator()
    cupy.cuda.set_allocator(pgmo.cupy_torch_allocator())
    yield
    gc.collect()
    cupy.cuda.set_allocator(before)


class Both:
    """A program with a loss of PyTorch and an update of CuPy on the same memory."""

    def __init__(self):
        torch.manual_seed(0)
        self.weight = torch.randn(512, 512, device="cuda", requires_grad=True)
        self.inputs = torch.randn(256, 512, device="cuda")

    def step(self):
        loss = torch.relu(self.inputs @ self.weight).square().mean()
        loss.backward()
        # On one stream, so that the work of both frameworks is ordered.
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            gradient = cupy.from_dlpack(self.weight.grad.detach())
            weight = cupy.from_dlpack(self.weight.detach())
            momentum = gradient * cupy.float32(0.9) + cupy.sign(gradient) * cupy.float32(0.1)
            weight -= cupy.float32(0.01) * momentum
            back = torch.from_dlpack(momentum)
        self.weight.grad = None
        return float(back.sum())


def trained(*sessions):
    program = Both()
    results = []
    for _ in range(14):
        results.append(program.step())
        for session in sessions:
            session.step()
    return results, program.weight.detach().cpu()


def assert_same(plain, other):
    assert plain[0] == other[0]
    assert torch.equal(plain[1], other[1])


@pytest.mark.filterwarnings("ignore:ExternalStream is deprecated")
def test_a_plan_for_each():
    plain = trained()
    with pgmo.optimize(device="cuda") as tensors, pgmo.optimize(framework="cupy") as arrays:
        assert_same(plain, trained(tensors, arrays))
        for session in (tensors, arrays):
            assert session.history[-1].hit_rate >= 0.99


@pytest.mark.filterwarnings("ignore:ExternalStream is deprecated")
def test_one_plan_for_both(through_torch):
    plain = trained()
    with pgmo.optimize(device="cuda") as session:
        assert_same(plain, trained(session))
        assert session.history[-1].hit_rate >= 0.99
    before = torch.cuda.memory_allocated()
    array = cupy.empty(SIZE, cupy.uint8)
    assert torch.cuda.memory_allocated() - before == SIZE
    del array
    assert torch.cuda.memory_allocated() == before


def array_of_bytes():
    return cupy.full(SIZE, 7, cupy.uint8)


def tensor_of_bytes():
    return torch.full((SIZE,), 7, dtype=torch.uint8, device="cuda")


@pytest.mark.parametrize("owner", ["cupy", "torch"])
def test_a_view_of_the_other_framework_holds_the_slot(owner):
    make, options, view = array_of_bytes, {"framework": "cupy"}, torch.from_dlpack
    if owner == "torch":
        make, options, view = tensor_of_bytes, {"device": "cuda"}, cupy.from_dlpack
    with pgmo.optimize(**options) as session:
        for _ in range(7):
            with session.iteration():
                make()
        with session.iteration():
            kept = view(make())
        live = session.statistics["live_slot_bytes"]
        for _ in range(2):
            with session.iteration():
                make()
    assert live >= SIZE
    assert bool((kept == 7).all())
