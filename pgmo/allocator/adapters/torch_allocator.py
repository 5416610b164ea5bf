"""pgmo as an allocator for `torch.cuda.memory.change_current_allocator`."""

import importlib.util
import sysconfig
from contextlib import suppress
from functools import cache
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from typing import Any

from pgmo.allocator.adapters.hooks.optimizer_state import report_optimizer_state
from pgmo.allocator.adapters.torch_cuda import adapter_library, pages_wanted, use_pages_always
from pgmo.allocator.adapters.torch_source import cuda_source_of, imported_torch, pybind_abi
from pgmo.allocator.build.compile import AdapterSource, compiled_adapter
from pgmo.allocator.build.prebuilt import find_prebuilt
from pgmo.errors import AdapterError

_MODULE = "pgmo_torch_cuda_module"


def torch_allocator() -> Any:
    """Return pgmo's adapter for `torch.cuda.memory.change_current_allocator`.

    `change_current_allocator` is torch's own way to replace its allocator, and works only before
    CUDA is used. `pgmo.optimize` does not need this call, because a session can install the adapter
    at any time. While no session is open, pages serve all requests if the device has virtual
    memory. On other devices, or with `PGMO_PAGES=0`, torch's own allocator serves all requests.

    Returns:
        An object whose `allocator()` is a `torch._C._cuda_CUDAAllocator`.

    Raises:
        AdapterError: if torch is missing, or if the adapter must be compiled here and cannot be.

    Example:
        >>> torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())  # doctest: +SKIP
    """
    torch = imported_torch()
    library = adapter_library()
    if pages_wanted():
        use_pages_always()
        report_optimizer_state(library)
    made = _wrapper().wrap(library.address("pgmo_adapter"))

    class PgmoAllocator(torch.cuda.memory._CUDAAllocator):  # type: ignore[misc, name-defined]
        """Allocator of pgmo over torch's own."""

        def __init__(self) -> None:
            self._allocator = made

    return PgmoAllocator()


@cache
def _wrapper() -> Any:
    """Return an extension module, which wraps the adapter in an object of torch's type."""
    source = module_source()
    ready = find_prebuilt(source)
    if ready is not None:
        with suppress(ImportError):  # for example, the system's libraries are too old
            return _imported(ready)
    include = sysconfig.get_path("include")
    if not Path(include, "Python.h").exists():
        raise AdapterError(
            f"pgmo.torch_allocator() needs Python's own headers, which are not in {include}; "
            "install them (Debian, Ubuntu: apt install python3-dev), or use pgmo.optimize(), which "
            "does not need them"
        )
    with compiled_adapter(source) as path:
        return _imported(path)


def module_source() -> AdapterSource:
    """Return the source and flags of the extension module."""
    flags = pybind_abi(imported_torch()._C)
    python = f"python {sysconfig.get_config_var('SOABI')}"
    include = ("-isystem", sysconfig.get_path("include"))
    return cuda_source_of(_MODULE, *flags, *include, "-lc10_cuda", abi=(*flags, python))


def _imported(path: Path) -> Any:
    loader = ExtensionFileLoader(_MODULE, str(path))
    spec = importlib.util.spec_from_file_location(_MODULE, str(path), loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
