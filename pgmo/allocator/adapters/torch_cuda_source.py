"""PyTorch's CUDA build: how adapters are compiled against it, and what its segments leave free."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from pgmo.allocator.build.compile import AdapterSource
from pgmo.allocator.build.cuda_headers import cuda_include
from pgmo.allocator.build.forwarders import forwarders, trace_methods
from pgmo.allocator.build.prebuilt import find_prebuilt
from pgmo.errors import AdapterError


def adapter_source() -> AdapterSource:
    """How to compile the adapter against the installed torch.

    Raises:
        AdapterError: when torch or CUDA's headers are missing, or torch's are not understood.
    """
    return source_of("torch_cuda", "-lc10", "-lc10_cuda")


def pybind_abi(torch_c: Any) -> list[str]:
    """What torch's own module was compiled with: pybind11 shares no types with any other.

    Newer versions of torch no longer say, as pybind11 finds the same by itself.

    Args:
        torch_c: `torch._C`.
    """
    names = ("COMPILER_TYPE", "STDLIB", "BUILD_ABI")
    said = {name: getattr(torch_c, f"_PYBIND11_{name}", None) for name in names}
    return [f'-DPYBIND11_{name}="{value}"' for name, value in said.items() if value is not None]


def source_of(name: str, *flags: str, abi: tuple[str, ...] = ()) -> AdapterSource:
    """How to compile one of the files against the installed torch.

    Args:
        name: of the file, perhaps with "pgmo_" before it.
        flags: for compiler and linker.
        abi: what settles its binary interface besides PyTorch's headers and CUDA's major version.

    Raises:
        AdapterError: when headers are missing, of torch or of CUDA, or are not understood. Those of
            CUDA are not needed where the adapter comes with pgmo.
    """
    torch = imported_torch()
    root = Path(torch.__file__).parent
    version = str(torch.__version__)
    macro = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"
    include = root / "include"
    source = AdapterSource(
        name=name.removeprefix("pgmo_"),
        what=f"PyTorch {version} (CUDA)",
        version=version,
        flags=(macro, "-isystem", str(include), f"-L{root / 'lib'}", *flags),
        generated={
            "torch_cuda_forwarders.inc": forwarders(include),
            "torch_trace_methods.inc": trace_methods(include),
        },
        headers=include,
        abi=(macro, f"cuda {str(torch.version.cuda).partition('.')[0]}", *abi),
    )
    cuda: tuple[str, ...] = ()
    try:
        cuda = ("-isystem", str(cuda_include()))
    except AdapterError:
        if find_prebuilt(source) is None:
            raise
    return replace(source, flags=(*source.flags[:3], *cuda, *source.flags[3:]))


def imported_torch() -> Any:
    """The module.

    Raises:
        AdapterError: when it is missing.
    """
    try:
        import torch
    except ImportError as error:
        raise AdapterError(
            "pgmo.optimize() needs PyTorch, which is not installed: pip install torch"
        ) from error
    return torch


def torch_with_cuda() -> Any:
    """The module.

    Raises:
        AdapterError: when it is missing, or finds no CUDA device.
    """
    torch = imported_torch()
    if torch.version.cuda is None:
        raise AdapterError(
            f"the installed PyTorch {torch.__version__} was built without CUDA; install a CUDA "
            "build, or use pgmo.optimize(device='cpu')"
        )
    if not torch.cuda.is_available():
        raise AdapterError(
            "PyTorch finds no CUDA device; check the driver (nvidia-smi), or use "
            "pgmo.optimize(device='cpu')"
        )
    return torch


def split_blocks(index: int) -> list[tuple[int, int, int, int]]:
    """What is free between living tensors in PyTorch's segments of large blocks.

    Segments that can be unmapped in part are left out: they keep no whole page.

    Args:
        index: of the device.

    Returns:
        Address, bytes, the segment's address and the handle of its stream, for each.
    """
    import torch

    statistics = torch.cuda.memory_stats(index)
    if not statistics.get("inactive_split_bytes.large_pool.current"):
        return []
    return [
        (block["address"], block["size"], segment["address"], segment["stream"])
        for segment in torch.cuda.memory_snapshot()  # type: ignore[no-untyped-call]
        if segment["device"] == index and segment["segment_type"] == "large"
        if not segment["is_expandable"] and tuple(segment["segment_pool_id"]) == (0, 0)
        for block in segment["blocks"]
        if block["state"] == "inactive"
    ]
