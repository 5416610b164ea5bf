import mmap

import pytest

from pgmo.demo.memory import page_faults, peak_resident, reset_peak_resident

MIB = 2**20


def touch(size: int) -> None:
    with mmap.mmap(-1, size) as memory:
        for at in range(0, size, 4096):
            memory[at] = 1


def test_the_peak_stays_when_memory_goes_and_falls_when_reset():
    if not reset_peak_resident():
        pytest.skip("this system does not reset the peak")
    before = peak_resident()
    touch(96 * MIB)
    peak = peak_resident()
    assert peak >= before + 90 * MIB
    assert reset_peak_resident()
    assert peak_resident() <= peak - 90 * MIB


def test_touching_pages_faults():
    before = page_faults()
    touch(16 * MIB)
    assert page_faults() > before
