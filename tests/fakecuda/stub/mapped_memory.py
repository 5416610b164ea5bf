"""Reads and writes of mapped memory, and calls that the driver refuses."""

import ctypes
import os

import pytest

from tests.fakecuda.driver import PAGE, DriverError


def refused(function, *arguments):
    """Return the error number of a call that the driver refuses."""
    with pytest.raises(DriverError) as caught:
        function(*arguments)
    return caught.value.code


def write(address, value, size=PAGE):
    ctypes.memset(address, value, size)


def read(address):
    return ctypes.string_at(address, 1)[0]


def host_bytes():
    """Return the bytes of host memory in the files that represent the cards."""
    held = 0
    for number in os.listdir("/proc/self/fd"):
        try:
            if "fakecuda-card-" in os.readlink(f"/proc/self/fd/{number}"):
                held += os.fstat(int(number)).st_blocks * 512
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
    return held
