"""Two cards, each with its own memory."""

import threading

import pytest
import torch

from tests.fakecuda.control import used
from tests.fakecuda.programs import run_program

MIB = 1 << 20


def test_two_devices_are_there():
    assert torch.cuda.device_count() == 2
    assert torch.cuda.get_device_name(1) == "fakecuda 1"
    assert torch.cuda.get_device_properties(0).multi_processor_count == 132


def test_each_thread_has_a_current_device_of_its_own():
    seen = []

    def look():
        seen.append(torch.cuda.current_device())
        torch.cuda.set_device(1)
        seen.append(torch.cuda.current_device())

    torch.cuda.set_device(0)
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [0, 1]
    assert torch.cuda.current_device() == 0


def test_memory_belongs_to_one_device():
    torch.cuda.empty_cache()
    before = used(0), used(1)
    block = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda:1")
    assert used(0) == before[0]
    assert used(1) == before[1] + 64 * MIB
    free, total = torch.cuda.mem_get_info(1)
    assert total - free == used(1)
    del block
    torch.cuda.empty_cache()
    assert used(1) == before[1]


@pytest.mark.parametrize("configuration", ["", "expandable_segments:True"])
def test_a_card_is_as_large_as_one_says(configuration):
    code = """
import json, torch
blocks = []
try:
    while True:
        blocks.append(torch.empty(40 << 20, dtype=torch.uint8, device="cuda"))
except torch.OutOfMemoryError:
    pass
print(json.dumps([len(blocks), *torch.cuda.mem_get_info()]))
"""
    settings = {"FAKECUDA_BYTES": str(1000 * MIB), "PYTORCH_CUDA_ALLOC_CONF": configuration}
    assert run_program(code, **settings) == [25, 0, 1000 * MIB]
