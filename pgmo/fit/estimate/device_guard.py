"""Lets autograd build graphs of tensors whose device this build of torch knows nothing of.

c10 keeps a table with one guard for each type of device, which autograd asks for the current stream
when it makes a node. A CPU build has no guard for CUDA, and without one the first node of a graph
ends the process. The guard of the device "meta" does nothing, which is what is wanted.
"""

import ctypes
import os

from pgmo.errors import AdapterError

_CUDA, _META, _TYPES = 1, 14, 21
"""Numbers of `c10::DeviceType`, which have been the same since PyTorch 1.10."""


def ensure_guard() -> None:
    """Enters a guard that does nothing where there is none. Lasts as long as the process.

    Raises:
        AdapterError: when this torch keeps its guards elsewhere.

    Example:
        >>> ensure_guard()
    """
    import torch

    if torch.backends.cuda.is_built():  # type: ignore[no-untyped-call]
        torch._C._ensureCUDADeviceGuardSet()  # exchanges the guard where there is no driver
        return
    library = os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so")
    try:
        table = (ctypes.c_void_p * _TYPES).in_dll(
            ctypes.CDLL(library), "_ZN3c104impl26device_guard_impl_registryE"
        )
    except (OSError, ValueError) as error:
        raise AdapterError(
            f"torch {torch.__version__} keeps its device guards where pgmo does not find them "
            f"({error}); use a CUDA build of torch, which is rehearsed instead"
        ) from error
    if not table[_META]:
        raise AdapterError(
            f"torch {torch.__version__} has no guard for the device 'meta'; use a CUDA build of "
            "torch, which is rehearsed instead"
        )
    table[_CUDA] = table[_CUDA] or table[_META]
