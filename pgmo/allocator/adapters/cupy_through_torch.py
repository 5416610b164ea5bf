"""CuPy over PyTorch's CUDA allocator: one allocator for both, and one plan.

    cupy.cuda.set_allocator(pgmo.cupy_torch_allocator())
    with pgmo.optimize() as session: ...                      serves the arrays of CuPy, too

    cupy.ndarray ──▶ torch.cuda.caching_allocator_alloc ──▶ pgmo's adapter ──▶ PyTorch's own

Without it each framework keeps what it has freed to itself.
"""

import atexit
from collections.abc import Callable
from typing import Any

from pgmo.allocator.adapters.cupy_allocator import LEGACY, PER_THREAD
from pgmo.allocator.adapters.torch_cuda_source import torch_with_cuda
from pgmo.errors import AdapterError
from pgmo.profiler.tagging.cupy_module import imported_cupy

_made: list[Any] = []
"""CuPy's side of each allocator that was made."""


def cupy_torch_allocator() -> Any:
    """An allocator for `cupy.cuda.set_allocator` that asks PyTorch's CUDA allocator.

    PyTorch then counts CuPy's arrays, reuses their memory, and serves them from the slots of a
    `pgmo.optimize()` session: the program has one plan. It needs no session, and stays when one
    ends. Each request is one for CuPy's current stream; on that the block is used again when the
    array is gone, as with CuPy's own pool.

    When memory runs out the error is `torch.OutOfMemoryError`. What CuPy's pool holds already stays
    there until `cupy.get_default_memory_pool().free_all_blocks()`.

    Returns:
        A function of a size in bytes that returns a `cupy.cuda.MemoryPointer`.

    Raises:
        AdapterError: when CuPy or a PyTorch with CUDA is missing; at requests on the per-thread
            default stream, which PyTorch's allocator cannot tell from that of another thread.

    Example:
        >>> cupy.cuda.set_allocator(pgmo.cupy_torch_allocator())  # doctest: +SKIP
    """
    cuda = imported_cupy().cuda
    torch = torch_with_cuda()
    torch.cuda.init()
    current_stream, request = cuda.get_current_stream, quick_request(torch)
    give_back = torch.cuda.caching_allocator_delete
    ended: list[bool] = []
    atexit.register(ended.append, True)  # torch may be gone then, and the memory goes anyway

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
    """Return what allocates as `torch.cuda.caching_allocator_alloc` on the current device.

    Most of that function's time goes into making the device the current one and back. It cannot be
    left to CUDA alone: torch may be about to change to another device.

    Args:
        torch: the module.

    Returns:
        A function of bytes, device and handle of a stream that returns an address.
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
