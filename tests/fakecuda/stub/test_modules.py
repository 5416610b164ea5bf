"""Modules that a program loads by the driver, as Triton does, and that compute nothing."""

import ctypes
import os

import pytest
import torch


@pytest.fixture
def driver():
    return ctypes.CDLL(os.environ["PGMO_FAKECUDA"])


def loaded(driver):
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert driver.cuModuleLoadData(ctypes.byref(module), b"code") == 0
    assert driver.cuModuleGetFunction(ctypes.byref(function), module, b"kernel") == 0
    return function


def launch(driver, function, stream):
    shape = [ctypes.c_uint(1)] * 6
    shared, none = ctypes.c_uint(0), ctypes.c_void_p()
    stream = ctypes.c_void_p(stream.cuda_stream)
    return driver.cuLaunchKernel(function, *shape, shared, stream, none, none)


def test_functions_are_distinguished_and_have_registers(driver):
    one, other = loaded(driver), loaded(driver)
    assert one.value
    assert other.value
    assert one.value != other.value
    registers, threads = ctypes.c_int(), ctypes.c_int()
    assert driver.cuFuncGetAttribute(ctypes.byref(registers), 4, one) == 0
    assert driver.cuFuncGetAttribute(ctypes.byref(threads), 0, one) == 0
    assert 0 < registers.value <= 255
    assert threads.value == 1024


def test_a_launch_writes_nothing(driver):
    there = torch.full((8,), 3.0).cuda()
    assert launch(driver, loaded(driver), torch.cuda.current_stream()) == 0
    assert there.cpu().tolist() == [3.0] * 8


def test_a_launch_is_captured(driver):
    graph, function = torch.cuda.CUDAGraph(keep_graph=True), loaded(driver)
    with torch.cuda.graph(graph):
        assert launch(driver, function, torch.cuda.current_stream()) == 0
        assert launch(driver, function, torch.cuda.current_stream()) == 0
    count = ctypes.c_size_t()
    nodes = driver.cudaGraphGetNodes(
        ctypes.c_void_p(graph.raw_cuda_graph()), None, ctypes.byref(count)
    )
    assert (nodes, count.value) == (0, 2)


def test_a_pointer_of_the_card_is_its_own_address(driver):
    there, found = torch.empty(8, device="cuda"), ctypes.c_uint64()
    device_pointer = 3
    address = ctypes.c_uint64(there.data_ptr())
    assert driver.cuPointerGetAttribute(ctypes.byref(found), device_pointer, address) == 0
    assert found.value == there.data_ptr()
    host = ctypes.c_uint64(torch.empty(8).data_ptr())
    assert driver.cuPointerGetAttribute(ctypes.byref(found), device_pointer, host) != 0
