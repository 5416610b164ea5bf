"""Gradient sums in the model of plain PyTorch, which untagged programs compute in place."""

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_double, c_int, c_int64, c_size_t, c_uint32, c_uint64

import pytest

from pgmo import _core
from pgmo.allocator.adapters.baseline import _Figures, _Settings

MIB = 1 << 20
HANDLE, ADDRESS = ctypes.c_void_p, ctypes.c_size_t


class Table(ctypes.Structure):
    """The first functions of `pgmo_baseline_api`, and the last one."""

    _fields_ = (
        ("version", c_uint32),
        ("size", c_uint32),
        ("open", CFUNCTYPE(HANDLE, POINTER(_Settings), c_int64, c_int64)),
        ("add_segment", CFUNCTYPE(None, HANDLE, c_uint64, c_int, c_int, HANDLE, c_size_t)),
        ("allocated", CFUNCTYPE(None, HANDLE, ADDRESS, c_int64, c_uint64, c_uint64, c_int)),
        ("freed", CFUNCTYPE(None, HANDLE, ADDRESS, c_int)),
        ("postponed", HANDLE),
        ("settled", HANDLE),
        ("is_of_other_stream", HANDLE),
        ("failed", HANDLE),
        ("empty_cache", HANDLE),
        ("release_pool", HANDLE),
        ("empty_pool", HANDLE),
        ("set_fraction", CFUNCTYPE(None, HANDLE, c_double)),
        ("private_segments", HANDLE),
        ("private_blocks", HANDLE),
        ("took", HANDLE),
        ("figures", CFUNCTYPE(None, HANDLE, POINTER(_Figures))),
    )


class Model:
    """Model of a card of 1 GiB, with PyTorch's default settings."""

    def __init__(self):
        self._table = Table.from_address(_core.baseline_api())
        assert self._table.size == ctypes.sizeof(Table)
        settings = _Settings(max_non_split_rounding=20 * MIB, large_segment_size=20 * MIB)
        self._handle = self._table.open(settings, 1 << 30, 1 << 30)

    def request(self, address, mib, *, is_sum=False):
        _core.expect_gradient_sum(is_sum)
        self._table.allocated(self._handle, address, mib * MIB, 0, 0, 0)
        _core.expect_gradient_sum(False)

    def free(self, *addresses):
        for address in addresses:
            self._table.freed(self._handle, address, 0)

    @property
    def figures(self):
        found = _Figures()
        self._table.figures(self._handle, found)
        return {
            name: getattr(found, name) // MIB
            for name in ("live", "peak_live", "reserved", "peak_reserved")
        }


@pytest.fixture
def model():
    return Model()


def test_a_sum_takes_the_block_of_the_summand_that_is_freed_first(model):
    model.request(1, 20)
    model.request(2, 20)
    model.request(3, 20, is_sum=True)
    model.free(1, 2)
    assert model.figures == {"live": 20, "peak_live": 40, "reserved": 40, "peak_reserved": 40}
    model.request(4, 20)  # in the other summand's block
    assert model.figures == {"live": 40, "peak_live": 40, "reserved": 40, "peak_reserved": 40}
    model.free(3)
    model.request(5, 20)  # in the first summand's block
    assert model.figures == {"live": 40, "peak_live": 40, "reserved": 40, "peak_reserved": 40}


def test_a_sum_whose_summands_are_kept_is_allocated(model):
    model.request(1, 20)
    model.request(2, 20)
    model.request(3, 20, is_sum=True)
    model.request(4, 20)
    assert model.figures == {"live": 80, "peak_live": 80, "reserved": 80, "peak_reserved": 80}


def test_a_sum_is_allocated_before_blocks_of_other_sizes_are_freed(model):
    model.request(1, 40)
    model.request(2, 20, is_sum=True)
    model.free(1)
    assert model.figures == {"live": 20, "peak_live": 60, "reserved": 60, "peak_reserved": 60}


def test_a_sum_that_is_freed_at_once_leaves_nothing(model):
    model.request(1, 20)
    model.request(2, 20, is_sum=True)
    model.free(1, 2)
    assert model.figures == {"live": 0, "peak_live": 20, "reserved": 20, "peak_reserved": 20}


def test_sums_may_follow_each_other(model):
    for address in (1, 2, 3):
        model.request(address, 20)
    model.request(4, 20, is_sum=True)
    model.free(1, 2)
    model.request(5, 20, is_sum=True)
    model.free(4, 3)
    model.free(5)
    assert model.figures == {"live": 0, "peak_live": 60, "reserved": 60, "peak_reserved": 60}


def test_tagging_marks_the_sums_of_a_backward_pass():
    torch = pytest.importorskip("torch")
    from pgmo.profiler.tagging.tags import Tagger

    marks = []
    weight = torch.ones(3, requires_grad=True)
    with Tagger(lambda number: None, expect_sum=marks.append):
        (weight.sin() + weight.cos()).sum().backward()
        weight.detach() + weight.detach()
    assert marks == [True, False]
