"""Copies and sets really change bytes; kernels do not run."""

import ctypes
import os

import torch

from tests.fakecuda import driver
from tests.fakecuda.driver import PAGE
from tests.fakecuda.programs import run_program

ILLEGAL_ADDRESS = 700


def test_bytes_go_to_the_device_within_it_and_back():
    values = torch.randn(3 << 20)
    there = values.cuda()
    again = there.clone()
    there.copy_(torch.zeros_like(values))
    assert torch.equal(again.cpu(), values)
    assert not there.cpu().any()


def test_kernels_are_not_run():
    there = torch.ones(100).cuda()
    there.add_(1)
    assert there.cpu().tolist() == [1.0] * 100


def test_bytes_go_from_one_device_to_another():
    values = torch.arange(1000)
    assert torch.equal(values.to("cuda:0").to("cuda:1").cpu(), values)


def test_pinned_memory_is_known_as_such():
    pinned = torch.arange(1000).pin_memory()
    assert pinned.is_pinned()
    assert not torch.arange(1000).is_pinned()
    assert torch.equal(pinned.to("cuda", non_blocking=True).cpu(), pinned)


def test_long_copies_can_be_left_out():
    code = """
import json, torch
values = torch.ones(1 << 20)
print(json.dumps([int(values[:n].cuda().cpu().sum()) for n in (100, 1 << 20)]))
"""
    assert run_program(code) == [100, 1 << 20]
    # The copy back is as long as the copy to the device, so both are skipped above the limit.
    short, long = run_program(code, FAKECUDA_COPY_LIMIT="4096")
    assert short == 100
    assert long != 1 << 20


def test_kernels_that_are_compiled_as_a_program_runs_are_not_run_either():
    there = torch.ones(100).cuda()
    there.erfinv_()  # NVRTC compiles it, and needs a table of the driver
    assert there.cpu().tolist() == [1.0] * 100


def test_a_copy_of_addresses_without_memory_is_an_error():
    stub, host = ctypes.CDLL(os.environ["PGMO_FAKECUDA"]), ctypes.create_string_buffer(16)

    def copied(address):
        return stub.cudaMemcpyAsync(host, ctypes.c_void_p(address), ctypes.c_size_t(16), 4, None)

    handle = driver.create(PAGE)
    with driver.reserved(2 * PAGE) as address:
        driver.map_at(address, PAGE, handle)
        assert copied(address) == 0
        assert copied(address + PAGE - 8) == ILLEGAL_ADDRESS
        assert copied(address + PAGE) == ILLEGAL_ADDRESS
        driver.unmap(address, PAGE)
        assert copied(address) == ILLEGAL_ADDRESS
    driver.release(handle)
