"""Sources and compiler flags of PyTorch's adapters, and free memory in PyTorch's segments."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from pgmo.allocator.build.compile import AdapterSource
from pgmo.allocator.build.cuda_headers import cuda_include
from pgmo.allocator.build.prebuilt import find_prebuilt
from pgmo.errors import AdapterError


def cpu_source() -> AdapterSource:
    """Return the source and flags to compile the CPU's adapter against the installed torch."""
    torch = imported_torch()
    root = Path(torch.__file__).parent
    include = root / "include"
    macro = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"
    return AdapterSource(
        name="torch_cpu",
        what=f"PyTorch {torch.__version__} (CPU)",
        version=str(torch.__version__),
        flags=(macro, "-isystem", str(include), f"-L{root / 'lib'}", "-lc10", "-ltorch_cpu"),
        headers=include,
        abi=(macro,),
    )


def cuda_source() -> AdapterSource:
    """Return the source and flags to compile the CUDA adapter against the installed torch."""
    return cuda_source_of("torch_cuda", "-lc10_cuda")


def pybind_abi(torch_c: Any) -> list[str]:
    """Return the compiler flags for pybind11 that torch's own module was compiled with.

    pybind11 shares types only between modules with equal settings. For newer versions of torch, the
    result is empty, because their version of pybind11 determines the settings by itself.
    """
    names = ("COMPILER_TYPE", "STDLIB", "BUILD_ABI")
    settings = {name: getattr(torch_c, f"_PYBIND11_{name}", None) for name in names}
    return [f'-DPYBIND11_{name}="{value}"' for name, value in settings.items() if value is not None]


def cuda_source_of(name: str, *flags: str, abi: tuple[str, ...] = ()) -> AdapterSource:
    """Return the source and flags to compile a file of csrc/adapters against torch's CUDA build."""
    from pgmo.allocator.build.forwarders import forwarders, trace_methods

    base = cpu_source()
    include = Path(base.flags[2])
    source = replace(
        base,
        name=name.removeprefix("pgmo_"),
        what=f"PyTorch {base.version} (CUDA)",
        flags=(*base.flags, *flags),
        generated={
            "torch_cuda_forwarders.inc": forwarders(include),
            "torch_trace_methods.inc": trace_methods(include),
        },
        abi=(*base.abi, f"cuda {str(imported_torch().version.cuda).partition('.')[0]}", *abi),
    )
    try:
        cuda = cuda_include()
    except AdapterError:
        if find_prebuilt(source) is None:
            raise
        return source
    return replace(source, flags=(*source.flags, "-isystem", str(cuda)))


def imported_torch() -> Any:
    """Return the module `torch`; raise `AdapterError` if it cannot be imported."""
    try:
        import torch
    except ImportError as error:
        raise AdapterError(
            f"pgmo needs PyTorch, which cannot be imported ({error}): pip install torch"
        ) from error
    return torch


def torch_with_cuda() -> Any:
    """Return the module `torch`; raise `AdapterError` if it is missing or cannot use CUDA."""
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
    """Return the free blocks between live tensors in PyTorch's segments of large blocks.

    Expandable segments are left out, because they keep no whole page idle. Private pools are left
    out, too.

    Returns:
        For each free block: address, bytes, address of the segment, and handle of its stream.
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
