"""Lazy import of CuPy, and the choice of its device."""

from typing import Any

from pgmo.errors import AdapterError


def imported_cupy() -> Any:
    """Return the module `cupy`, or raise AdapterError if it cannot be imported."""
    try:
        import cupy
    except ImportError as error:
        if not isinstance(error, ModuleNotFoundError) or error.name != "cupy":
            raise AdapterError(
                f"CuPy is installed and cannot be imported: {error}\n`pgmo doctor` shows the cause"
            ) from error
        raise AdapterError("CuPy is needed and not installed: pip install cupy-cuda13x") from error
    return cupy


def cupy_device(cupy: Any, index: int | None = None) -> int:
    """Return `index`, or the current device's number; raise AdapterError for a missing device."""
    runtime = cupy.cuda.runtime
    try:
        count = int(runtime.getDeviceCount())
        current = int(runtime.getDevice())
    except runtime.CUDARuntimeError as error:
        raise AdapterError(
            f"CuPy finds no CUDA device ({error}); check the driver (nvidia-smi)"
        ) from error
    if index is None:
        return current
    if not isinstance(index, int) or not 0 <= index < count:
        name = f"cuda:{index}" if isinstance(index, int) else repr(index)
        raise AdapterError(
            f"there is no device {name}; this machine has {count}, and CuPy numbers them from 0"
        )
    return index
