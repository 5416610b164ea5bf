"""The part of CuPy that adapters use, without a GPU: addresses are numbers, without memory.

Names, arguments and the order of calls are those of the public interface of CuPy 14. The "driver"
knows all live blocks, so that a second free of a block is an error.
"""

import contextlib
import itertools
import threading
import types
import weakref
from collections import OrderedDict, defaultdict

UNIT = 512


class CUDARuntimeError(RuntimeError):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class OutOfMemoryError(MemoryError):
    pass


class Runtime:
    """A stand-in for `cupy.cuda.runtime`."""

    CUDARuntimeError = CUDARuntimeError

    def __init__(self, devices=2, limit=1 << 40):
        self._local = threading.local()
        self._addresses = itertools.count(1 << 30, 1 << 33)
        self.devices = devices
        self.limit = limit
        self.living = {}  # address: (device, size, kind)
        self.log = []
        self.capturing = set()
        self.concurrent = True  # whether unified memory may exceed the card

    def getDeviceCount(self):  # noqa: N802
        if not self.devices:
            raise CUDARuntimeError(100, "cudaErrorNoDevice: no CUDA-capable device is detected")
        return self.devices

    def getDevice(self):  # noqa: N802
        return getattr(self._local, "device", 0)

    def setDevice(self, device):  # noqa: N802
        self._local.device = device

    def used(self, device=0, kind=None):
        """Return the bytes in use on a card, without unified memory, or those of one kind."""
        return sum(
            size
            for on, size, of in list(self.living.values())  # a copy, as other threads change it
            if on == device and (of == kind if kind else of != "managed")
        )

    def memGetInfo(self):  # noqa: N802
        return self.limit - self.used(self.getDevice()), self.limit

    def deviceGetAttribute(self, attribute, device):  # noqa: N802
        assert attribute == 89  # cudaDevAttrConcurrentManagedAccess
        assert device < self.devices
        return int(self.concurrent)

    def malloc(self, size, kind="device"):
        if kind != "managed" and self.used(self.getDevice()) + size > self.limit:
            raise CUDARuntimeError(2, "cudaErrorMemoryAllocation: out of memory")
        address = next(self._addresses)
        self.living[address] = (self.getDevice(), size, kind)
        self.log.append(f"{kind}: {size}")
        return address

    def free(self, address):
        _, size, kind = self.living.pop(address)
        self.log.append(f"free {kind}: {size}")

    def streamIsCapturing(self, handle):  # noqa: N802
        assert handle > 1
        return handle in self.capturing


class BaseMemory:
    ptr = size = device_id = 0


class MemoryPointer:
    def __init__(self, mem, offset):
        assert mem.ptr != 0 or offset == 0
        self.mem, self.ptr, self.device_id = mem, mem.ptr + offset, mem.device_id


class UnownedMemory(BaseMemory):
    def __init__(self, ptr, size, owner, device_id=-1):
        assert device_id >= 0, "would ask the driver for each array"
        self.ptr, self.size, self._owner, self.device_id = ptr, size, owner, device_id


def make(**options):
    """Return a new module `cupy`, whose driver is `cupy.runtime`."""
    runtime = Runtime(**options)
    local = threading.local()
    current = [None]

    def hooks():
        if not hasattr(local, "hooks"):
            local.hooks = OrderedDict()
        return local.hooks

    class MemoryHook:
        name = "MemoryHook"

        def __enter__(self):
            if self.name in hooks():
                raise KeyError(f"memory hook {self.name} already exists")
            hooks()[self.name] = self
            return self

        def __exit__(self, *_):
            del hooks()[self.name]

        def alloc_preprocess(self, **kwargs):
            pass

        alloc_postprocess = malloc_preprocess = malloc_postprocess = alloc_preprocess
        free_preprocess = free_postprocess = alloc_preprocess

    def call_hooks(event, **kwargs):
        for hook in hooks().values():
            getattr(hook, event)(**kwargs)

    class Memory(BaseMemory):
        kind = "device"

        def __init__(self, size):
            self.size, self.device_id = size, runtime.getDevice()
            self.ptr = runtime.malloc(size, self.kind) if size > 0 else 0

        def __del__(self):
            if getattr(self, "ptr", 0):
                runtime.free(self.ptr)

    class ManagedMemory(Memory):
        kind = "managed"

    class MemoryAsync(Memory):
        def __init__(self, size, stream):
            self.kind = f"async on {stream}"
            super().__init__(size)

    def malloc_managed(size):
        return MemoryPointer(ManagedMemory(size), 0)

    def malloc_async(size):
        return MemoryPointer(MemoryAsync(size, get_current_stream().ptr), 0)

    def _malloc(size):
        return MemoryPointer(Memory(size), 0)

    class PooledMemory(BaseMemory):
        def __init__(self, mem, pool, key):
            self.ptr, self.size, self.device_id = mem.ptr, mem.size, mem.device_id
            self._mem, self._pool, self._key = mem, weakref.ref(pool), key

        def __del__(self):
            about = {
                "device_id": self.device_id,
                "mem_size": self.size,
                "mem_ptr": self.ptr,
                "pmem_id": id(self),
            }
            call_hooks("free_preprocess", **about)
            pool = self._pool()
            if pool is not None:
                pool.free[self._key].append(self._mem)
            call_hooks("free_postprocess", **about)

    class PythonFunctionAllocatorMemory(BaseMemory):
        def __init__(self, size, malloc, free, device):
            self.size, self.device_id, self._free = size, device, free
            self.ptr = malloc(size, device) if size > 0 else 0

        def __del__(self):
            if self.ptr:
                self._free(self.ptr, self.device_id)

    class PythonFunctionAllocator:
        def __init__(self, malloc_func, free_func):
            self._functions = malloc_func, free_func

        def malloc(self, size):
            memory = PythonFunctionAllocatorMemory(size, *self._functions, runtime.getDevice())
            return MemoryPointer(memory, 0)

    class MemoryPool:
        """A pool of freed blocks, for requests of the same rounded size, device and stream."""

        def __init__(self, allocator=None):
            self._allocator = allocator or _malloc
            self.free = defaultdict(list)
            self._taken = defaultdict(int)

        def malloc(self, size):
            rounded = -(-size // UNIT) * UNIT
            device = runtime.getDevice()
            call_hooks("malloc_preprocess", device_id=device, size=size, mem_size=rounded)
            if not size:
                pointer = MemoryPointer(Memory(0), 0)
            else:
                key = device, get_current_stream().ptr, rounded
                mem = self.free[key].pop() if self.free[key] else self._fresh(rounded)
                pointer = MemoryPointer(PooledMemory(mem, self, key), 0)
            call_hooks(
                "malloc_postprocess",
                device_id=device,
                size=size,
                mem_size=rounded,
                mem_ptr=pointer.ptr,
                pmem_id=id(pointer.mem),
            )
            return pointer

        def free_all_blocks(self, stream=None):
            for key in [key for key in self.free if key[0] == runtime.getDevice()]:
                self._taken[key[0]] -= sum(mem.size for mem in self.free.pop(key))

        def total_bytes(self):
            return self._taken[runtime.getDevice()]

        def _fresh(self, size):
            try:
                mem = self._allocator(size).mem
            except CUDARuntimeError:
                self.free_all_blocks()
                try:
                    mem = self._allocator(size).mem
                except CUDARuntimeError:
                    raise OutOfMemoryError(f"Out of memory allocating {size:,} bytes") from None
            self._taken[runtime.getDevice()] += size
            return mem

    class Device:
        def __init__(self, device=None):
            self.id = runtime.getDevice() if device is None else device

        def __enter__(self):
            local.__dict__.setdefault("devices", []).append(runtime.getDevice())
            runtime.setDevice(self.id)
            return self

        def __exit__(self, *_):
            runtime.setDevice(local.devices.pop())

        def synchronize(self):
            runtime.log.append(f"synchronize device {self.id}")

    class Stream:
        def __init__(self, ptr):
            self.ptr = ptr

        def __enter__(self):
            local.__dict__.setdefault("streams", []).append((runtime.getDevice(), self))
            return self

        def __exit__(self, *_):
            local.streams.pop()

        def synchronize(self):
            runtime.log.append(f"synchronize stream {self.ptr}")

        @classmethod
        def from_external(cls, other):
            version, handle = other.__cuda_stream__()
            assert version == 0
            return cls(handle)

    Stream.null = Stream(0)

    def get_current_stream(device_id=-1):
        device = runtime.getDevice() if device_id == -1 else device_id
        used = [each for on, each in getattr(local, "streams", []) if on == device]
        return used[-1] if used else Stream.null

    def set_allocator(allocator=None):
        if getattr(local, "allocator", None) is not None:
            raise ValueError("Can't change the global allocator inside `using_allocator`")
        current[0] = allocator or _malloc

    def get_allocator():
        return getattr(local, "allocator", None) or current[0]

    def set_local(allocator):
        local.allocator = allocator

    @contextlib.contextmanager
    def using_allocator(allocator=None):
        previous = getattr(local, "allocator", None)
        set_local(allocator or _malloc)
        try:
            yield
        finally:
            set_local(previous)

    pool = MemoryPool()
    current[0] = pool.malloc
    cuda = types.ModuleType("cupy.cuda")
    for each in (
        *(MemoryPointer, UnownedMemory, Memory, ManagedMemory, MemoryPool, MemoryHook, Device),
        *(PythonFunctionAllocator, Stream, malloc_managed, malloc_async, get_current_stream),
        *(set_allocator, get_allocator, using_allocator),
    ):
        setattr(cuda, each.__name__, each)
    cuda.runtime = runtime
    cuda.memory = types.SimpleNamespace(
        OutOfMemoryError=OutOfMemoryError,
        _get_thread_local_allocator=lambda: getattr(local, "allocator", None),
        _set_thread_local_allocator=set_local,
    )
    cupy = types.ModuleType("cupy")
    cupy.cuda, cupy.runtime, cupy.pool = cuda, runtime, pool
    cupy.__version__ = "14.0.0"
    return cupy


def alloc(cupy, size):
    """Request memory as CuPy does for an array: from the current allocator."""
    pointer = cupy.cuda.get_allocator()(size)
    assert pointer.device_id == cupy.runtime.getDevice()
    assert pointer.mem.size >= size
    return pointer
