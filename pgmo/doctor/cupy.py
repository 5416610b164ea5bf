"""Check of CuPy: its installed packages, libraries and devices."""

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import distributions
from typing import Any

from pgmo.doctor.finding import Finding

_PACKAGE = re.compile(r"(amd-)?cupy(-cuda\d+x?|-rocm[-\d]+)?")


def cupy_packages() -> list[str]:
    """Return the installed packages that provide the module `cupy`, such as "cupy-cuda13x"."""
    names = {str(one.metadata["Name"]).lower().replace("_", "-") for one in distributions()}
    return sorted(name for name in names if _PACKAGE.fullmatch(name))


def examine_cupy(cupy: Any) -> dict[str, Any]:
    """Return properties of CuPy, and the number of its devices."""
    runtime = cupy.cuda.runtime
    found: dict[str, Any] = {"hip": bool(runtime.is_hip)}
    try:
        found["built_for"] = int(runtime.runtimeGetVersion())
        found["devices"] = int(runtime.getDeviceCount())
    except Exception as error:  # the driver fails, or a library is missing
        return found | {"devices": 0, "why": str(error)}
    try:  # CuPy loads each CUDA library on first use, and its packages contain none
        cupy.cuda.nvrtc.getVersion()
        _ = cupy.cuda.cublas
    except Exception as error:
        found["lacks"] = str(error)
    return found


def cupy_works(found: Mapping[str, Any]) -> bool:
    """Return whether pgmo can serve CuPy."""
    return bool(found.get("devices")) and not found.get("hip")


def cupy_problems(
    found: Mapping[str, Any], driver: str, environment: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield the problems with CuPy; nothing if CuPy is not installed."""
    packages: Sequence[str] = found.get("packages", ())
    if len(packages) > 1:
        yield Finding(
            "warning",
            f"{len(packages)} packages install CuPy and overwrite each other: "
            f"{', '.join(packages)}",
            f"pip uninstall {' '.join(packages)}; then install the one for your version of CUDA",
        )
    if found.get("error"):
        yield Finding(
            "warning",
            f"CuPy cannot be imported: {found['error'].partition(chr(10))[0]}",
            f"reinstall it: pip install --force-reinstall {packages[0] if packages else 'cupy'}",
        )
        return
    if found.get("hip"):
        yield Finding(
            "warning",
            "this CuPy is built for ROCm, with which pgmo was never tested",
            "use a CUDA build (cupy-cuda12x, cupy-cuda13x) on an NVIDIA GPU",
        )
    elif "version" in found and not found.get("devices"):
        yield _no_device(found, driver)
    elif found.get("lacks"):
        extra = f"{packages[0]}[ctk]" if packages else "cupy-cuda13x[ctk]"
        yield Finding(
            "warning",
            f"CuPy finds a GPU, but not CUDA's libraries: {found['lacks'].partition(chr(10))[0]}",
            f"pip install '{extra}' (CuPy 14), or install the CUDA toolkit and set CUDA_PATH",
        )
    if found.get("devices") and environment.get("CUPY_CUDA_PTDS") == "1":
        yield Finding(
            "warning",
            "CUPY_CUDA_PTDS=1: arrays on the per-thread default stream go to CuPy's own allocator",
            "unset CUPY_CUDA_PTDS, or use streams of your own (cupy.cuda.Stream)",
        )


def _no_device(found: Mapping[str, Any], driver: str) -> Finding:
    name = f"CuPy {found['version']}"
    why = found.get("why", "it counts 0 devices").partition("\n")[0]
    if not driver:
        return Finding(
            "warning",
            f"{name} is installed, but there is no GPU driver: {why}",
            "no GPU is needed to read, plan and compare profiles; in a container, pass the "
            "GPUs on (--gpus all)",
        )
    if "InsufficientDriver" in why and found.get("built_for"):
        major = found["built_for"] // 1000
        return Finding(
            "warning",
            f"{name} is built for CUDA {major}, and the driver {driver} is too old for it",
            f"update the driver, or install CuPy for an older CUDA (cupy-cuda{major - 1}x)",
        )
    return Finding("warning", f"{name} finds no GPU: {why}", "check the driver with nvidia-smi")
