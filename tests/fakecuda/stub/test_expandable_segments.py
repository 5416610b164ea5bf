"""Expandable segments of PyTorch's allocator, on the driver's virtual memory."""

from tests.fakecuda.programs import run_program

MIB = 1 << 20

TRAIN = """
import json, torch
from tests.fakecuda.control import driver_calls, peak, used, violations
torch.backends.cudnn.enabled = False
layers = [m for _ in range(4) for m in (torch.nn.Linear(1024, 1024), torch.nn.GELU())]
model = torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.Adam(model.parameters())
for length in (256, 1024, 512, 2048, 300):
    optimizer.zero_grad()
    model(torch.randn(length, 1024, device="cuda")).square().mean().backward()
    optimizer.step()
seen = [peak(), torch.cuda.max_memory_reserved(), used(), torch.cuda.memory_reserved()]
model = optimizer = None
torch.cuda.empty_cache()
left = [used(), torch.cuda.memory_reserved()]
print(json.dumps([seen, left, driver_calls(), violations()]))
"""


def test_a_network_trains_in_expandable_segments_and_the_peak_is_what_torch_reserved():
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    (peak, most, now, reserved), (after, left), calls, violated = run_program(TRAIN, **settings)
    assert peak == most > 50 * MIB
    assert now == reserved
    assert after == left < now
    assert calls["map"] > 0
    assert calls["create"] - calls["map"] in (0, 1)  # torch first tries a fabric handle
    assert calls["unmap"] == calls["release"] > 0
    assert violated == 0


def test_without_expandable_segments_the_peak_is_what_torch_reserved_and_nothing_is_mapped():
    settings = {"PYTORCH_CUDA_ALLOC_CONF": ""}
    (peak, most, *_), _, calls, _ = run_program(TRAIN, **settings)
    assert peak == most > 50 * MIB
    assert set(calls.values()) == {0}
