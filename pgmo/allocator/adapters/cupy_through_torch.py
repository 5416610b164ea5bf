"""CuPy over PyTorch's CUDA allocator: one allocator for both, and one plan.

    cupy.cuda.set_allocator(pgmo.cupy_torch_allocator())
    with pgmo.optimize() as session: ...                      also serves CuPy's arrays

    cupy.ndarray ──▶ torch.cuda.caching_allocator_alloc ──▶ pgmo's adapter ──▶ PyTorch's own

Without this allocator, neither framework can reuse memory that the other has freed.
"""

import atexit
from collections.abc import Callable
from typing import Any

from pgmo.allocator.adapters.cupy_allocator import LEGACY, PER_THREAD
from pgmo.allocator.adapters.torch_source import torch_with_cuda
from pgmo.errors import AdapterError
from pgmo.profiler.tagging.cupy_module import imported_cupy

_made: list[Any] = []
"""CuPy's allocator objects. They are never destroyed, because arrays may outlive them."""


def cupy_torch_allocator() -> Any:
    """Return an allocator for `cupy.cuda.set_allocator` that uses PyTorch's CUDA allocator.

    PyTorch then counts CuPy's arrays, reuses their memory, and serves them from the slots of a
    `pgmo.optimize()` session, so the program has one plan. The allocator works without a session
    and stays installed when a session ends. Requests are made on CuPy's current stream. After an
    array is freed, the stream of its request can reuse the block, as with CuPy's own pool.

    If memory runs out, the allocator raises `torch.OutOfMemoryError`. Memory that CuPy's pool
    already holds stays in the pool until `cupy.get_default_memory_pool().free_all_blocks()`.

    Returns:
        A function that takes a size in bytes and returns a `cupy.cuda.MemoryPointer`.

    Raises:
        AdapterError: if CuPy or PyTorch is missing, or PyTorch cannot use CUDA. The allocator also
            raises it for requests on the per-thread default stream: PyTorch's allocator cannot
            distinguish the streams of several threads by their handle.

    Example:
        >>> cupy.cuda.set_allocator(pgmo.cupy_torch_allocator())  # doctest: +SKIP
    """
    cuda = imported_cupy().cuda
    torch = torch_with_cuda()
    torch.cuda.init()
    current_stream, request = cuda.get_current_stream, quick_request(torch)
    give_back = torch.cuda.caching_allocator_delete
    ended: list[bool] = []
    atexit.register(ended.append, True)  # torch may be unloaded at exit

    def malloc(size: int, device: int) -> int:
        stream = current_stream(device).ptr
        if stream == PER_THREAD:
            raise AdapterError(
                "PyTorch's allocator cannot serve CuPy's per-thread default stream; unset "
                "CUPY_CUDA_PTDS, or use a stream of your own (cupy.cuda.Stream)"
            )
        address: int = request(size, device, stream if stream > LEGACY else 0)
        return address

    def free(address: int, _device: int) -> None:
        if not ended:
            give_back(address)

    _made.append(cuda.PythonFunctionAllocator(malloc, free))
    return _made[-1].malloc


def quick_request(torch: Any) -> Callable[[int, int, int], int]:
    """Return a function like `torch.cuda.caching_allocator_alloc`, if possible a faster one.

    The faster function does not switch the device if torch's current device is the right one. It
    asks torch and not CUDA, because torch may change CUDA's device later than its own.
    """
    thorough: Callable[[int, int, int], int] = torch.cuda.caching_allocator_alloc
    bare = getattr(torch._C, "_cuda_cudaCachingAllocator_raw_alloc", None)
    current_device = getattr(torch._C, "_cuda_getDevice", None)
    if bare is None or current_device is None:
        return thorough

    def request(size: int, device: int, stream: int) -> int:
        if current_device() != device:
            return thorough(size, device, stream)
        address: int = bare(size, stream)
        return address

    return request
