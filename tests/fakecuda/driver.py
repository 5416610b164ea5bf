"""Calls of the driver's virtual memory functions by ctypes."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

PAGE = 2 << 20
OUT_OF_MEMORY, INVALID_VALUE, INVALID_DEVICE, NOT_SUPPORTED = 2, 1, 101, 801
NO_ACCESS, READ, READ_WRITE = 0, 1, 3
POSIX_DESCRIPTOR, FABRIC = 1, 8

_u64, _size, _int = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int
_SIGNATURES = {
    "cuMemAddressReserve": (ctypes.POINTER(_u64), _size, _size, _u64, _u64),
    "cuMemAddressFree": (_u64, _size),
    "cuMemCreate": (ctypes.POINTER(_u64), _size, ctypes.c_void_p, _u64),
    "cuMemRelease": (_u64,),
    "cuMemMap": (_u64, _size, _size, _u64, _u64),
    "cuMemUnmap": (_u64, _size),
    "cuMemSetAccess": (_u64, _size, ctypes.c_void_p, _size),
    "cuMemGetAccess": (ctypes.POINTER(_u64), ctypes.c_void_p, _u64),
    "cuMemRetainAllocationHandle": (ctypes.POINTER(_u64), ctypes.c_void_p),
    "cuMemGetAllocationGranularity": (ctypes.POINTER(_size), ctypes.c_void_p, _int),
    "cuMemGetAllocationPropertiesFromHandle": (ctypes.c_void_p, _u64),
    "cuMemExportToShareableHandle": (ctypes.c_void_p, _u64, _int, _u64),
    "cuMemImportFromShareableHandle": (ctypes.POINTER(_u64), ctypes.c_void_p, _int),
    "cuDeviceGetAttribute": (ctypes.POINTER(_int), _int, _int),
    "cuMemsetD8Async": (_u64, ctypes.c_ubyte, _size, ctypes.c_void_p),
    "cuMemcpyDtoDAsync_v2": (_u64, _u64, _size, ctypes.c_void_p),
    "cudaFree": (ctypes.c_void_p,),
}


@cache
def _library() -> ctypes.CDLL:
    """Return the stub, loaded at the first call: importing this module does not need it."""
    library = ctypes.CDLL(os.environ["PGMO_FAKECUDA"])
    for name, arguments in _SIGNATURES.items():
        getattr(library, name).argtypes = arguments
    return library


class DriverError(Exception):
    """A call failed with the driver's error number `code`."""

    def __init__(self, name: str, code: int):
        super().__init__(f"{name}: {code}")
        self.code = code


def call(name: str, *arguments: object) -> None:
    """Call a function of the driver."""
    code = getattr(_library(), name)(*arguments)
    if code:
        raise DriverError(name, code)


class Location(ctypes.Structure):
    _fields_ = [("type", _int), ("id", _int)]


class Flags(ctypes.Structure):
    _fields_ = [
        ("compression", ctypes.c_ubyte),
        ("gpu_direct_rdma", ctypes.c_ubyte),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 4),
    ]


class Properties(ctypes.Structure):
    _fields_ = [
        ("type", _int),
        ("handle_types", _int),
        ("location", Location),
        ("win32", ctypes.c_void_p),
        ("flags", Flags),
    ]


class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", _int)]


def properties(device: int = 0, *, handle_types: int = 0, rdma: bool = False) -> Properties:
    return Properties(1, handle_types, Location(1, device), None, Flags(0, rdma, 0))


def reserve(size: int, alignment: int = 0) -> int:
    address = _u64()
    call("cuMemAddressReserve", ctypes.byref(address), size, alignment, 0, 0)
    return address.value


def create(size: int, like: Properties | None = None) -> int:
    handle = _u64()
    wanted = properties() if like is None else like
    call("cuMemCreate", ctypes.byref(handle), size, ctypes.byref(wanted), 0)
    return handle.value


def allow(address: int, size: int, device: int = 0, flags: int = READ_WRITE) -> None:
    access = Access(Location(1, device), flags)
    call("cuMemSetAccess", address, size, ctypes.byref(access), 1)


def map_at(address: int, size: int, handle: int) -> None:
    """Map the handle, with access from its first card."""
    call("cuMemMap", address, size, 0, handle, 0)
    allow(address, size)


def unmap(address: int, size: int) -> None:
    call("cuMemUnmap", address, size)


def release(handle: int) -> None:
    call("cuMemRelease", handle)


def free_addresses(address: int, size: int) -> None:
    call("cuMemAddressFree", address, size)


def access(address: int, device: int = 0) -> int:
    flags = _u64()
    call("cuMemGetAccess", ctypes.byref(flags), ctypes.byref(Location(1, device)), address)
    return flags.value


def is_mapped(address: int) -> bool:
    try:
        access(address)
    except DriverError:
        return False
    return True


def export(handle: int, handle_type: int = POSIX_DESCRIPTOR) -> int:
    descriptor = _int(-1)
    call("cuMemExportToShareableHandle", ctypes.byref(descriptor), handle, handle_type, 0)
    return descriptor.value


def import_from(descriptor: int) -> int:
    handle = _u64()
    call("cuMemImportFromShareableHandle", ctypes.byref(handle), descriptor, POSIX_DESCRIPTOR)
    return handle.value


def attribute(number: int, device: int = 0) -> int:
    value = _int()
    call("cuDeviceGetAttribute", ctypes.byref(value), number, device)
    return value.value


def set_bytes(address: int, value: int, size: int, stream: int | None = None) -> None:
    call("cuMemsetD8Async", address, value, size, stream)


def copy_bytes(to: int, source: int, size: int, stream: int | None = None) -> None:
    call("cuMemcpyDtoDAsync_v2", to, source, size, stream)


@contextmanager
def reserved(size: int) -> Iterator[int]:
    """Reserve addresses inside of the block. The block has to unmap everything at its end."""
    address = reserve(size)
    yield address
    free_addresses(address, size)
