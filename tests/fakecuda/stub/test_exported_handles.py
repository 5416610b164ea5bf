"""Handles that are exported as descriptors, and imported in this or another process."""

import os
import subprocess
import sys

from tests.fakecuda import driver
from tests.fakecuda.control import used
from tests.fakecuda.driver import (
    FABRIC,
    INVALID_VALUE,
    NOT_SUPPORTED,
    PAGE,
    POSIX_DESCRIPTOR,
)
from tests.fakecuda.programs import ROOT
from tests.fakecuda.stub.mapped_memory import host_bytes, read, refused, write


def test_an_exported_handle_comes_back_as_the_same_memory():
    before = used()
    handle = driver.create(PAGE, driver.properties(handle_types=POSIX_DESCRIPTOR))
    with driver.reserved(2 * PAGE) as address:
        driver.map_at(address, PAGE, handle)
        write(address, 71)
        descriptor = driver.export(handle)
        assert read(address) == 71  # the imported page has the same bytes
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
from tests.fakecuda.control import used
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
