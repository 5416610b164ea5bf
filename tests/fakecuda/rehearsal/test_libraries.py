"""cuSOLVER and cuFFT: shapes, memory, and results of known values."""

import pytest

LINEAR_ALGEBRA = """
import torch
from torch import linalg
known = torch.randn(6, 6).cuda()
for got, wanted in (
    (linalg.qr(known)[1], linalg.qr(known.cpu())[1]),
    (linalg.eigvalsh(known @ known.T), linalg.eigvalsh(known.cpu() @ known.cpu().T)),
    (torch.fft.rfft2(known), torch.fft.rfft2(known.cpu())),
):
    assert torch.allclose(got.cpu(), wanted, atol=1e-4)
large = torch.randn(3, 400, 400, device="cuda")
for name in ("qr", "svd", "eigh", "eig", "cholesky", "inv", "det", "slogdet", "lu", "lu_factor",
             "ldl_factor", "pinv", "matrix_rank"):
    function = getattr(linalg, name)
    shapes, wanted = (
        [tuple(one.shape) for one in (found if isinstance(found, tuple) else (found,))]
        for found in (function(large), function(torch.eye(400).repeat(3, 1, 1)))
    )
    assert shapes == wanted, name
assert linalg.lstsq(large, large[..., :2]).solution.shape == (3, 400, 2)
assert torch.nn.init.orthogonal_(torch.empty(64, 32, device="cuda")).shape == (64, 32)
"""

BACKWARD = """
import torch
from torch import linalg
for function in (linalg.inv, linalg.det, linalg.svdvals, linalg.cholesky, torch.fft.rfft,
                 lambda one: linalg.qr(one)[0], lambda one: linalg.solve(one, one[:, :1])):
    one = torch.randn(300, 300, device="cuda", requires_grad=True)
    function(one).abs().sum().backward()
    assert one.grad.shape == one.shape
"""

ALLOCATED = """
import torch
one = torch.empty(1024, 1024, device="cuda")
torch.cuda.reset_peak_memory_stats()
q, r = torch.linalg.qr(one)
print("alive", torch.cuda.memory_allocated() >> 20, "peak", torch.cuda.max_memory_allocated() >> 20)
assert torch.cuda.memory_allocated() >> 20 == 12
"""


@pytest.mark.parametrize("code", [LINEAR_ALGEBRA, BACKWARD, ALLOCATED])
def test_they_run_on_the_host(run, code):
    answer = run(code)
    assert answer.fits, answer.error
    (note,) = [one for one in answer.notes if "cuSOLVER" in one]
    assert "which is a guess" in note


def test_errors_of_known_values_are_those_of_the_card(run):
    answer = run("import torch\ntorch.linalg.cholesky(-torch.eye(3).cuda())\n")
    assert answer.failed
    assert "not positive-definite" in answer.reason
