"""Virtual memory calls that the stub driver refuses, as a real driver does."""

import ctypes

from tests.fakecuda import driver
from tests.fakecuda.driver import (
    FABRIC,
    INVALID_DEVICE,
    INVALID_VALUE,
    NO_ACCESS,
    NOT_SUPPORTED,
    PAGE,
    POSIX_DESCRIPTOR,
    READ,
    READ_WRITE,
)
from tests.fakecuda.programs import run_program
from tests.fakecuda.stub.mapped_memory import read, refused, write


def test_only_free_reserved_addresses_can_be_mapped(two, page):
    first, _ = two
    assert refused(driver.map_at, first, PAGE, page) == INVALID_VALUE  # already mapped
    assert refused(driver.map_at, first + 64 * PAGE, PAGE, page) == INVALID_VALUE
    large = driver.create(2 * PAGE)
    assert refused(driver.map_at, first - PAGE, 2 * PAGE, large) == INVALID_VALUE  # half mapped
    assert refused(driver.map_at, first + PAGE, 2 * PAGE, large) == INVALID_VALUE
    driver.release(large)


def test_maps_are_whole_pages_from_the_begin_of_a_handle(page):
    with driver.reserved(4 * PAGE) as address:
        for arguments in (
            (address, PAGE, PAGE, page, 0),  # an offset
            (address, PAGE, 4096, page, 0),
            (address, PAGE // 2, 0, page, 0),
            (address, 0, 0, page, 0),
            (address, 2 * PAGE, 0, page, 0),  # larger than the handle
            (address + 4096, PAGE, 0, page, 0),
            (address, PAGE, 0, page, 1),  # flags
            (address, PAGE, 0, page + 1000, 0),  # no such handle
        ):
            assert refused(driver.call, "cuMemMap", *arguments) == INVALID_VALUE, arguments


def test_maps_are_undone_as_a_whole():
    handle = driver.create(2 * PAGE)
    with driver.reserved(8 * PAGE) as address:
        assert refused(driver.unmap, address, 2 * PAGE) == INVALID_VALUE  # nothing is mapped
        driver.map_at(address, 2 * PAGE, handle)
        write(address, 9)
        for begin, size in (
            (address, PAGE),
            (address + PAGE, PAGE),
            (address, 3 * PAGE),
            (address, 0),
        ):
            assert refused(driver.unmap, begin, size) == INVALID_VALUE
        assert read(address) == 9
        driver.map_at(address + 2 * PAGE, 2 * PAGE, handle)
        driver.unmap(address, 4 * PAGE)  # several adjacent maps
        assert refused(driver.unmap, address, 2 * PAGE) == INVALID_VALUE
    driver.release(handle)


def test_access_is_given_to_whole_maps_only():
    handle = driver.create(2 * PAGE)
    with driver.reserved(4 * PAGE) as address:
        assert refused(driver.allow, address, PAGE) == INVALID_VALUE
        driver.call("cuMemMap", address, 2 * PAGE, 0, handle, 0)
        assert driver.access(address) == NO_ACCESS
        assert refused(driver.allow, address, PAGE) == INVALID_VALUE
        assert refused(driver.allow, address, 4 * PAGE) == INVALID_VALUE
        assert refused(driver.allow, address, 2 * PAGE, 7) == INVALID_DEVICE
        driver.allow(address, 2 * PAGE)
        driver.allow(address, 2 * PAGE, 1, READ)
        assert [driver.access(address, device) for device in (0, 1)] == [READ_WRITE, READ]
        driver.unmap(address, 2 * PAGE)
        driver.call("cuMemMap", address, 2 * PAGE, 0, handle, 0)
        assert driver.access(address) == NO_ACCESS  # a new map has no access
        driver.unmap(address, 2 * PAGE)
    driver.release(handle)


def test_a_handle_is_released_once():
    handle = driver.create(PAGE)
    driver.release(handle)
    assert refused(driver.release, handle) == INVALID_VALUE
    assert refused(driver.release, 12345678) == INVALID_VALUE


def test_a_released_handle_cannot_be_mapped_again_while_its_map_lives():
    handle = driver.create(PAGE)
    with driver.reserved(2 * PAGE) as address:
        driver.map_at(address, PAGE, handle)
        driver.release(handle)
        assert refused(driver.map_at, address + PAGE, PAGE, handle) == INVALID_VALUE
        assert refused(driver.release, handle) == INVALID_VALUE
        driver.unmap(address, PAGE)


def test_addresses_are_freed_as_they_were_reserved_and_only_when_empty(page):
    address = driver.reserve(2 * PAGE)
    driver.map_at(address + PAGE, PAGE, page)
    assert refused(driver.free_addresses, address, 2 * PAGE) == INVALID_VALUE
    driver.unmap(address + PAGE, PAGE)
    assert refused(driver.free_addresses, address, PAGE) == INVALID_VALUE
    assert refused(driver.free_addresses, address + PAGE, PAGE) == INVALID_VALUE
    driver.free_addresses(address, 2 * PAGE)
    assert refused(driver.free_addresses, address, 2 * PAGE) == INVALID_VALUE


def test_sizes_are_multiples_of_the_granularity():
    granularity = ctypes.c_size_t()
    for option in (0, 1):  # smallest, recommended
        wanted = driver.properties()
        driver.call(
            "cuMemGetAllocationGranularity",
            ctypes.byref(granularity),
            ctypes.byref(wanted),
            option,
        )
        assert granularity.value == PAGE
    for size in (0, 4096, PAGE + 4096):
        assert refused(driver.create, size) == INVALID_VALUE
        assert refused(driver.reserve, size) == INVALID_VALUE


def test_properties_are_kept_or_refused():
    wanted = driver.properties(1, handle_types=POSIX_DESCRIPTOR, rdma=True)
    handle = driver.create(PAGE, wanted)
    found = driver.Properties()
    driver.call("cuMemGetAllocationPropertiesFromHandle", ctypes.byref(found), handle)
    assert bytes(found) == bytes(wanted)
    driver.release(handle)
    assert refused(driver.create, PAGE, driver.properties(2)) == INVALID_DEVICE
    assert refused(driver.create, PAGE, driver.properties(handle_types=FABRIC)) == NOT_SUPPORTED


def test_mapped_memory_is_not_freed_as_a_block(two):
    first, second = two
    write(first, 4)
    assert refused(driver.call, "cudaFree", first) == INVALID_VALUE
    assert read(second) == 4


# --- whether there is any -----------------------------------------------------------------------

ATTRIBUTES = {"virtual memory": 102, "descriptors": 103, "rdma": 110}


def test_the_card_says_what_it_can():
    assert [driver.attribute(number) for number in ATTRIBUTES.values()] == [1, 1, 1]


def test_a_card_without_virtual_memory_says_so():
    code = """
import json
from tests.fakecuda import driver
said = [driver.attribute(number) for number in (102, 103, 110)]
for attempt in (lambda: driver.reserve(driver.PAGE), lambda: driver.create(driver.PAGE)):
    try:
        attempt()
    except driver.DriverError as error:
        said.append(error.code)
print(json.dumps(said))
"""
    settings = {"FAKECUDA_NO_VMM": "1"}
    assert run_program(code, **settings) == [0, 0, 0, NOT_SUPPORTED, NOT_SUPPORTED]
