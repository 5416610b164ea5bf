"""The driver's virtual memory: pages that are real, charged once, and apart from addresses."""

import ctypes
import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pgmo.rehearsal.control import driver_calls, peak, used
from tests.fakecuda import driver
from tests.fakecuda.driver import (
    FABRIC,
    INVALID_DEVICE,
    INVALID_VALUE,
    NO_ACCESS,
    NOT_SUPPORTED,
    OUT_OF_MEMORY,
    PAGE,
    POSIX_DESCRIPTOR,
    READ,
    READ_WRITE,
    DriverError,
)
from tests.fakecuda.programs import run_program

MIB, GIB, TIB = 1 << 20, 1 << 30, 1 << 40
ROOT = Path(__file__).parents[2]


def refused(function, *arguments):
    """The driver's answer to what it does not do."""
    with pytest.raises(DriverError) as caught:
        function(*arguments)
    return caught.value.code


def write(address, value, size=PAGE):
    ctypes.memset(address, value, size)


def read(address):
    return ctypes.string_at(address, 1)[0]


def host_bytes():
    """What the host holds of the files behind the cards."""
    held = 0
    for number in os.listdir("/proc/self/fd"):
        try:
            if "fakecuda-card-" in os.readlink(f"/proc/self/fd/{number}"):
                held += os.fstat(int(number)).st_blocks * 512
        except FileNotFoundError:  # the listing itself had a descriptor
            continue
    return held


@pytest.fixture
def page():
    """A handle of one page, given back at the end."""
    handle = driver.create(PAGE)
    yield handle
    driver.release(handle)


@pytest.fixture
def two(page):
    """A page at two addresses."""
    with driver.reserved(4 * PAGE) as address:
        pair = address, address + 2 * PAGE
        for one in pair:
            driver.map_at(one, PAGE, page)
        yield pair
        for one in pair:
            driver.unmap(one, PAGE)


# --- pages are real -----------------------------------------------------------------------------


def test_two_addresses_of_a_handle_show_the_same_bytes(two):
    first, second = two
    write(first, 17)
    assert read(second) == 17
    write(second + PAGE - 1, 18, 1)
    assert read(first + PAGE - 1) == 18


def test_handles_do_not_share_bytes():
    with driver.reserved(2 * PAGE) as address:
        handles = [driver.create(PAGE), driver.create(PAGE)]
        for at, handle in enumerate(handles):
            driver.map_at(address + at * PAGE, PAGE, handle)
            write(address + at * PAGE, at + 1)
        assert [read(address), read(address + PAGE)] == [1, 2]
        driver.unmap(address, 2 * PAGE)
        for handle in handles:
            driver.release(handle)


def test_bytes_stay_with_their_handle_while_it_is_mapped_nowhere(page):
    with driver.reserved(2 * PAGE) as address:
        driver.map_at(address, PAGE, page)
        write(address, 33)
        driver.unmap(address, PAGE)
        driver.map_at(address + PAGE, PAGE, page)
        assert read(address + PAGE) == 33
        driver.unmap(address + PAGE, PAGE)


def test_what_is_released_goes_back_to_the_host_and_comes_again_empty():
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


def test_without_access_nobody_can_look():
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
from pgmo.rehearsal.control import used
number = 139 << 9
address = driver.reserve(number * PAGE)
for at in range(number):
    driver.call("cuMemMap", address + at * PAGE, PAGE, 0, driver.create(PAGE), 0)
driver.allow(address, number * PAGE)
print(json.dumps([used() >> 30, len(open("/proc/self/maps").readlines()) < 5000]))
"""
    settings = {"FAKECUDA_BYTES": str(139 * GIB), "PYTHONPATH": str(ROOT)}
    assert run_program(code, **settings) == [139, True]


# --- errors -------------------------------------------------------------------------------------


def test_only_free_reserved_addresses_can_be_mapped(two, page):
    first, _ = two
    assert refused(driver.map_at, first, PAGE, page) == INVALID_VALUE  # there is something
    assert refused(driver.map_at, first + 64 * PAGE, PAGE, page) == INVALID_VALUE
    large = driver.create(2 * PAGE)
    assert refused(driver.map_at, first - PAGE, 2 * PAGE, large) == INVALID_VALUE  # half of it
    assert refused(driver.map_at, first + PAGE, 2 * PAGE, large) == INVALID_VALUE
    driver.release(large)


def test_maps_are_whole_pages_from_the_begin_of_a_handle(page):
    with driver.reserved(4 * PAGE) as address:
        for arguments in (
            (address, PAGE, PAGE, page, 0),  # an offset
            (address, PAGE, 4096, page, 0),
            (address, PAGE // 2, 0, page, 0),
            (address, 0, 0, page, 0),
            (address, 2 * PAGE, 0, page, 0),  # longer than the handle
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
        driver.unmap(address, 4 * PAGE)  # several maps that are neighbours
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
        assert driver.access(address) == NO_ACCESS  # maps begin without
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


# --- charge, peak and calls ---------------------------------------------------------------------


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


def test_what_is_unmapped_is_charged_until_it_is_released(page):
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


def test_the_card_refuses_what_it_does_not_have():
    assert refused(driver.create, 1 << 50) == OUT_OF_MEMORY


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
    assert driver_calls(reset=True) == counted
    assert set(driver_calls().values()) == {0}


# --- sharing ------------------------------------------------------------------------------------


def test_an_exported_handle_comes_back_as_the_same_memory():
    before = used()
    handle = driver.create(PAGE, driver.properties(handle_types=POSIX_DESCRIPTOR))
    with driver.reserved(2 * PAGE) as address:
        driver.map_at(address, PAGE, handle)
        write(address, 71)
        descriptor = driver.export(handle)
        assert read(address) == 71  # its bytes have come along
        imported = driver.import_from(descriptor)
        os.close(descriptor)
        driver.map_at(address + PAGE, PAGE, imported)
        assert read(address + PAGE) == 71
        write(address + PAGE, 72)
        assert read(address) == 72
        assert used() == before + PAGE
        driver.release(handle)
        driver.unmap(address, 2 * PAGE)
        assert used() == before + PAGE
        driver.release(imported)
        assert used() == before


def test_another_process_sees_the_same_bytes():
    handle = driver.create(PAGE, driver.properties(handle_types=POSIX_DESCRIPTOR))
    code = """
import ctypes, sys
from tests.fakecuda import driver
from pgmo.rehearsal.control import used
handle = driver.import_from(int(sys.argv[1]))
address = driver.reserve(driver.PAGE)
driver.map_at(address, driver.PAGE, handle)
print(ctypes.string_at(address, 1)[0], used())
ctypes.memset(address, 6, 1)
"""
    with driver.reserved(PAGE) as address:
        driver.map_at(address, PAGE, handle)
        write(address, 5)
        descriptor = driver.export(handle)
        done = subprocess.run(
            [sys.executable, "-c", code, str(descriptor)],
            cwd=ROOT,
            pass_fds=[descriptor],
            capture_output=True,
            text=True,
        )
        os.close(descriptor)
        assert done.stdout.split() == ["5", "0"], done.stderr
        assert read(address) == 6
        driver.unmap(address, PAGE)
    driver.release(handle)


def test_an_exported_handle_gives_its_memory_back():
    before = host_bytes()
    handle = driver.create(4 * PAGE, driver.properties(handle_types=POSIX_DESCRIPTOR))
    with driver.reserved(4 * PAGE) as address:
        driver.map_at(address, 4 * PAGE, handle)
        write(address, 1, 4 * PAGE)
        os.close(driver.export(handle))
        assert host_bytes() == before + 4 * PAGE
        driver.unmap(address, 4 * PAGE)
    driver.release(handle)
    assert host_bytes() == before


def test_only_what_was_made_for_it_is_exported(page):
    assert refused(driver.export, page) == INVALID_VALUE
    handle = driver.create(PAGE, driver.properties(handle_types=POSIX_DESCRIPTOR))
    assert refused(driver.export, handle, FABRIC) == NOT_SUPPORTED
    driver.release(handle)
    with open(__file__) as other:
        assert refused(driver.import_from, other.fileno()) == INVALID_VALUE


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
    settings = {"FAKECUDA_NO_VMM": "1", "PYTHONPATH": str(ROOT)}
    assert run_program(code, **settings) == [0, 0, 0, NOT_SUPPORTED, NOT_SUPPORTED]


# --- the genuine allocator ----------------------------------------------------------------------

TRAIN = """
import json, torch
from pgmo.rehearsal.control import driver_calls, peak, used, violations
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
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "PYTHONPATH": str(ROOT)}
    (peak, most, now, reserved), (after, left), calls, violated = run_program(TRAIN, **settings)
    assert peak == most > 50 * MIB
    assert now == reserved
    assert after == left < now
    assert calls["map"] > 0
    assert calls["create"] - calls["map"] in (0, 1)  # torch asks for a fabric handle first
    assert calls["unmap"] == calls["release"] > 0
    assert violated == 0


def test_without_expandable_segments_the_peak_is_what_torch_reserved_and_nothing_is_mapped():
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "PYTHONPATH": str(ROOT)}
    (peak, most, *_), _, calls, _ = run_program(TRAIN, **settings)
    assert peak == most > 50 * MIB
    assert set(calls.values()) == {0}
