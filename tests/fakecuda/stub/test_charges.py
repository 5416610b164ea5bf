"""Mapped memory is charged to the card once, with a peak, and calls are counted."""

import ctypes

from tests.fakecuda import driver
from tests.fakecuda.control import driver_calls, peak, used
from tests.fakecuda.driver import OUT_OF_MEMORY, PAGE
from tests.fakecuda.stub.mapped_memory import read, refused, write


def test_a_handle_is_charged_once_until_its_last_map_goes():
    before = used(1)
    handle = driver.create(3 * PAGE, driver.properties(1))
    assert used(1) == before + 3 * PAGE
    with driver.reserved(6 * PAGE) as address:
        driver.map_at(address, 3 * PAGE, handle)
        driver.map_at(address + 3 * PAGE, 3 * PAGE, handle)
        write(address, 8)
        driver.release(handle)
        assert used(1) == before + 3 * PAGE
        driver.unmap(address, 3 * PAGE)
        assert used(1) == before + 3 * PAGE
        assert read(address + 3 * PAGE) == 8
        driver.unmap(address + 3 * PAGE, 3 * PAGE)
        assert used(1) == before


def test_an_unmapped_page_stays_charged(page):
    before = used()
    with driver.reserved(PAGE) as address:
        driver.map_at(address, PAGE, page)
        driver.unmap(address, PAGE)
    assert used() == before


def test_a_retained_handle_has_to_be_released_as_often():
    before = used()
    handle, again = driver.create(PAGE), ctypes.c_uint64()
    with driver.reserved(PAGE) as address:
        driver.map_at(address, PAGE, handle)
        driver.call("cuMemRetainAllocationHandle", ctypes.byref(again), address + 5)
        driver.unmap(address, PAGE)
    driver.release(handle)
    assert used() == before + PAGE
    driver.release(again.value)
    assert used() == before


def test_the_peak_is_the_most_at_once_since_the_reset():
    peak(1, reset=True)
    base = used(1)
    assert peak(1) == base
    for size in (5 * PAGE, 2 * PAGE):
        driver.release(driver.create(size, driver.properties(1)))
    assert used(1) == base
    assert peak(1, reset=True) == base + 5 * PAGE
    assert peak(1) == base
    driver.release(driver.create(PAGE, driver.properties(1)))
    assert peak(1) == base + PAGE


def test_a_refused_request_is_no_peak():
    before = peak()
    assert refused(driver.create, 1 << 50) == OUT_OF_MEMORY
    assert peak() == before


def test_calls_are_counted_by_kind():
    driver_calls(reset=True)
    assert set(driver_calls().values()) == {0}
    address = driver.reserve(2 * PAGE)
    handle = driver.create(PAGE)
    driver.map_at(address, PAGE, handle)
    driver.call("cuMemMap", address + PAGE, PAGE, 0, handle, 0)
    driver.unmap(address, 2 * PAGE)
    driver.release(handle)
    refused(driver.release, handle)
    driver.free_addresses(address, 2 * PAGE)
    counted = {"create": 1, "map": 2, "unmap": 1, "set_access": 1, "reserve": 1, "release": 2}
    assert driver_calls(reset=True) == counted | {"export": 0, "import": 0}
    assert set(driver_calls().values()) == {0}
