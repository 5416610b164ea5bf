"""Pages of the driver have real memory, independent of the addresses of their maps."""

import ctypes
import itertools
import subprocess
import sys

from tests.fakecuda import driver
from tests.fakecuda.control import used
from tests.fakecuda.driver import NO_ACCESS, PAGE, READ, READ_WRITE
from tests.fakecuda.programs import ROOT, run_program
from tests.fakecuda.stub.mapped_memory import host_bytes, read, write

MIB, GIB, TIB = 1 << 20, 1 << 30, 1 << 40


def test_two_addresses_of_a_handle_show_the_same_bytes(two):
    first, second = two
    write(first, 17)
    assert read(second) == 17
    write(second + PAGE - 1, 18, 1)
    assert read(first + PAGE - 1) == 18


def test_bytes_stay_with_their_handle_while_it_is_mapped_nowhere(page):
    with driver.reserved(2 * PAGE) as address:
        driver.map_at(address, PAGE, page)
        write(address, 33)
        driver.unmap(address, PAGE)
        driver.map_at(address + PAGE, PAGE, page)
        assert read(address + PAGE) == 33
        driver.unmap(address + PAGE, PAGE)


def test_released_memory_returns_to_the_host_and_comes_back_zeroed():
    size = 64 * MIB
    with driver.reserved(size) as address:
        for _ in range(3):
            before = host_bytes()
            handle = driver.create(size)
            driver.map_at(address, size, handle)
            assert read(address) == 0
            write(address, 1, size)
            assert host_bytes() >= before + size - PAGE
            driver.unmap(address, size)
            driver.release(handle)
            assert host_bytes() == before


def test_ranges_of_any_size_are_used_again_without_sharing_bytes():
    sizes = [PAGE, 3 * PAGE, PAGE, 2 * PAGE]
    with driver.reserved(64 * PAGE) as address:
        handles = [driver.create(size) for size in sizes]
        for at in (1, 2):  # a hole of four pages
            driver.release(handles[at])
        kept = [
            handles[0],
            handles[3],
            *(driver.create(size) for size in (2 * PAGE, PAGE, 4 * PAGE)),
        ]
        lengths = [PAGE, 2 * PAGE, 2 * PAGE, PAGE, 4 * PAGE]
        places, at = [], address
        for handle, length in zip(kept, lengths, strict=True):
            driver.map_at(at, length, handle)
            places.append(at)
            at += length
        for value, (place, length) in enumerate(zip(places, lengths, strict=True)):
            write(place, value + 1, length)
        for value, (place, length) in enumerate(zip(places, lengths, strict=True)):
            assert set(ctypes.string_at(place, length)) == {value + 1}
        driver.unmap(address, at - address)
        for handle in kept:
            driver.release(handle)


def test_without_access_no_read_succeeds():
    code = """
import ctypes
from tests.fakecuda import driver
address = driver.reserve(driver.PAGE)
driver.call("cuMemMap", address, driver.PAGE, 0, driver.create(driver.PAGE), 0)
if {access}:
    driver.allow(address, driver.PAGE, 0, {access})
if {write}:
    ctypes.memset(address, 1, 1)
else:
    ctypes.string_at(address, 1)
print("seen")
"""

    def ends(**values):
        done = subprocess.run(
            [sys.executable, "-c", code.format(**values)], cwd=ROOT, capture_output=True, text=True
        )
        return done.stdout.strip() or done.returncode

    assert ends(access=READ_WRITE, write=True) == "seen"
    assert ends(access=READ, write=False) == "seen"
    assert ends(access=READ, write=True) == -11
    assert ends(access=NO_ACCESS, write=False) == -11


def test_reservations_can_be_huge_and_many():
    before = used()
    places = [driver.reserve(TIB) for _ in range(60)]
    small = driver.reserve(PAGE)
    ends = sorted([*((place, place + TIB) for place in places), (small, small + PAGE)])
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(ends))
    handle = driver.create(PAGE)
    driver.map_at(places[-1] + TIB - PAGE, PAGE, handle)
    write(places[-1] + TIB - PAGE, 5)
    driver.unmap(places[-1] + TIB - PAGE, PAGE)
    driver.release(handle)
    driver.free_addresses(small, PAGE)
    for place in places:
        driver.free_addresses(place, TIB)
    assert used() == before


def test_reservations_are_aligned_as_asked():
    address = driver.reserve(PAGE, GIB)
    assert address % GIB == 0
    driver.free_addresses(address, PAGE)


def test_a_large_card_fits_into_the_maps_that_a_process_may_have():
    code = """
import json
from tests.fakecuda import driver
from tests.fakecuda.driver import PAGE
from tests.fakecuda.control import used
number = 139 << 9
address = driver.reserve(number * PAGE)
for at in range(number):
    driver.call("cuMemMap", address + at * PAGE, PAGE, 0, driver.create(PAGE), 0)
driver.allow(address, number * PAGE)
print(json.dumps([used() >> 30, len(open("/proc/self/maps").readlines()) < 5000]))
"""
    settings = {"FAKECUDA_BYTES": str(139 * GIB)}
    assert run_program(code, **settings) == [139, True]
