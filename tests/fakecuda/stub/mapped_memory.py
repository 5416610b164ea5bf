"""Reads and writes mapped memory, and asks the driver for what it refuses."""

import ctypes
import os

import pytest

from tests.fakecuda.driver import PAGE, DriverError


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
