"""Complete examination of this machine, and its problems."""

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pgmo.doctor import probe
from pgmo.doctor.cache import Cache, examine_cache
from pgmo.doctor.compiler import Compiler, try_compiler
from pgmo.doctor.cupy import cupy_problems, cupy_works
from pgmo.doctor.finding import Finding
from pgmo.doctor.machine import conflicting_settings, memory_problems
from pgmo.share.host_memory import host_memory
from pgmo.version import __version__

_PACKAGES = ("numpy", "torch", "cupy", "ortools", "rich")
_DRIVER = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True)
class Examination:
    """Result of an examination.

    Args:
        versions: versions of pgmo, Python, the system and installed packages, by name.
        driver: version of NVIDIA's driver; "" if there is none.
        memory: bytes of host memory that this process may use; 0 if unknown.
        available: part of `memory` that is free now.
        frameworks: result of `pgmo.doctor.probe.ask`.
        compiler: state of the C++ compiler.
        cache: state of the cache folder.
        works: frameworks and devices that pgmo can serve on this machine.
        problems: found problems, errors first.
    """

    versions: Mapping[str, str]
    driver: str
    memory: int
    available: int
    frameworks: Mapping[str, Any]
    compiler: Compiler
    cache: Cache
    works: tuple[str, ...]
    problems: tuple[Finding, ...]


def examine(*, build: bool = False) -> Examination:
    """Examine this machine. With `build`, compile missing adapters."""
    total, available = host_memory()
    frameworks, compiler, cache = probe.ask(build=build), try_compiler(), examine_cache()
    driver = driver_version()
    works = tuple(served(frameworks, compiler, cache))
    problems = [
        *framework_problems(frameworks, driver),
        *adapter_problems(frameworks, compiler, cache),
        *cupy_problems(frameworks.get("cupy", {}), driver, os.environ),
        *conflicting_settings(),
        *memory_problems(available),
    ]
    problems.sort(key=lambda problem: problem.severity)
    return Examination(
        versions=dict(_versions(frameworks)),
        driver=driver,
        memory=total,
        available=available,
        frameworks=frameworks,
        compiler=compiler,
        cache=cache,
        works=works,
        problems=tuple(problems),
    )


def driver_version(proc: Path = _DRIVER) -> str:
    """Return the version of NVIDIA's driver without starting CUDA; "" if none is found."""
    try:
        for line in proc.read_text().splitlines():
            if "Kernel Module" in line:
                after = line.partition("Kernel Module")[2].split()
                return next((word for word in after if word[0].isdigit()), "")
    except OSError:
        pass
    program = shutil.which("nvidia-smi")  # for containers without the file `proc`
    if not program:
        return ""
    query = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.partition("\n")[0].strip() if done.returncode == 0 else ""


def served(frameworks: Mapping[str, Any], compiler: Compiler, cache: Cache) -> Iterator[str]:
    """Yield the frameworks and devices that pgmo can serve on this machine."""
    can_build = not compiler.error and not cache.misplaced

    def usable(adapter: str) -> bool:
        state = frameworks.get(adapter, {}).get("state")
        to_build = state in ("missing", "damaged", "distrusted")
        return state in ("built", "prebuilt") or (to_build and can_build)

    if usable("cpu_adapter"):
        yield "PyTorch on the CPU"
    if frameworks.get("devices") and usable("cuda_adapter"):
        yield "PyTorch on CUDA"
    if cupy_works(frameworks.get("cupy", {})):
        yield "CuPy"


def framework_problems(frameworks: Mapping[str, Any], driver: str) -> Iterator[Finding]:
    """Yield the problems with PyTorch and its GPUs."""
    torch = frameworks.get("torch", {})
    failed = frameworks.get("failed")
    if failed:
        yield Finding(
            "error",
            f"the process that examines the frameworks {failed}",
            'run `python -c "import torch; torch.cuda.init()"` and `python -c "import cupy"`, and '
            "reinstall the package that fails",
        )
    if torch.get("error"):
        yield Finding(
            "error",
            f"PyTorch cannot be imported: {torch['error']}",
            "reinstall it: pip install --force-reinstall torch",
        )
    elif not torch:
        if not failed:
            yield Finding(
                "warning" if cupy_works(frameworks.get("cupy", {})) else "error",
                "PyTorch is not installed",
                "pip install torch",
            )
    elif torch["cuda"] is None:
        if driver:
            yield Finding(
                "warning",
                f"there is a GPU driver ({driver}), but PyTorch {torch['version']} was built "
                "without CUDA",
                "install a CUDA build: https://pytorch.org/get-started/locally",
            )
        else:
            yield Finding(
                "warning",
                "there is no NVIDIA driver: only tensors on the CPU can be served",
                "no GPU is needed to read, plan and compare profiles that were recorded elsewhere",
            )
    elif not frameworks.get("devices") and not failed:
        why = frameworks["cuda"].get("error", "it counts 0 devices")
        yield Finding(
            "warning",
            f"PyTorch finds no GPU: {why.partition(chr(10))[0]}",
            "check the driver with nvidia-smi; in a container, pass the GPUs on (--gpus all)",
        )


def adapter_problems(
    frameworks: Mapping[str, Any], compiler: Compiler, cache: Cache
) -> Iterator[Finding]:
    """Yield the problems with the adapters and the tools that build them."""
    adapters = [frameworks[key] for key in ("cpu_adapter", "cuda_adapter") if key in frameworks]
    ready = bool(adapters) and all(one.get("state") == "prebuilt" for one in adapters)
    lacking = any(one.get("state") not in ("prebuilt", "built") for one in adapters)
    anew = "; each process compiles the adapters again" if lacking and not cache.misplaced else ""
    if compiler.error and not ready:
        what, _, remedy = compiler.error.partition("\n")
        if compiler.command:
            what = f"{compiler.command} cannot compile C++20: {compiler.error}"
            remedy = "install g++ 11, clang 14 or a newer one, and set CXX to its command"
        yield Finding("error", what, remedy)
    if cache.error:
        yield Finding(
            "error" if cache.misplaced else "warning",
            f"the cache folder {cache.folder} cannot be written: {cache.error}{anew}",
            "set PGMO_CACHE_DIR to a folder that you can write",
        )
    if cache.distrust:
        yield Finding(
            "warning",
            f"adapters in {cache.folder} are not loaded, because {cache.distrust}{anew}",
            "set PGMO_CACHE_DIR to a folder of your own, to which no other user can write",
        )
    for adapter, name in (("cpu_adapter", "the CPU"), ("cuda_adapter", "CUDA")):
        found = frameworks.get(adapter, {})
        if found.get("state") == "broken":
            yield Finding(
                "error",
                f"the adapter for {name} cannot be loaded: {found['reason']}",
                f"delete {found['path']}; pgmo compiles the adapter again when it is needed",
            )
        elif found.get("state") == "impossible" and not compiler.error and not cache.error:
            yield Finding(
                "error" if adapter == "cpu_adapter" or frameworks.get("devices") else "warning",
                f"the adapter for {name} cannot be built: {found['reason']}",
                "fix this error; all other parts of pgmo work without this adapter",
            )


def _versions(frameworks: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield names and versions; for a framework, the version that its module reports, if known."""
    yield "pgmo", __version__
    yield "python", platform.python_version()
    yield "system", f"{platform.system()} {platform.release()} {platform.machine()}"
    for name in _PACKAGES:
        reported = frameworks.get(name, {}).get("version")
        try:
            yield name, reported or version(name)
        except PackageNotFoundError:
            continue
