"""Properties of the frameworks, read in a separate process.

    python -m pgmo.doctor.probe [--build]

A process that initializes a broken CUDA installation may crash or hang. So each step prints one
line of JSON when it is done.
"""

import ctypes
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgmo.doctor.contexts import keep_context, measure_context
from pgmo.doctor.cupy import cupy_packages, examine_cupy

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgmo.allocator.build.compile import AdapterSource

_SECONDS = 180


def ask(*, build: bool = False, seconds: float = _SECONDS) -> dict[str, Any]:
    """Return what another process finds. With `build`, that process compiles missing adapters.

    Returns:
        Results by name, as far as known: `torch`, `cuda`, `devices`, `cpu_adapter`,
        `cuda_adapter`, `cupy`. If the process failed, `failed` describes how it ended.
    """
    # -P: do not import from the current folder. A `cuda.py` there would hide the package `cuda`.
    command = [sys.executable, "-P", "-m", __name__, *(["--build"] if build else [])]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": _path()},
        text=True,
        errors="replace",
    )
    failed = ""
    try:
        out, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, errors = process.communicate()
        failed = f"did not answer within {seconds:.0f} s"
    found: dict[str, Any] = {}
    for line in out.splitlines():
        if line.startswith('{"pgmo": '):  # libraries print, too
            found |= json.loads(line)["pgmo"]
    if not failed and process.returncode:
        last = errors.strip().splitlines()[-1:] or ["without a message"]
        how = f"signal {-process.returncode}" if process.returncode < 0 else "an error"
        failed = f"ended with {how}: {last[0]}"
    return {**found, "failed": failed} if failed else found


def _path() -> str:
    """Return a PYTHONPATH in which this pgmo comes after the entries of the environment."""
    own = str(Path(__file__).parents[2])
    return os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), own)))


def main(build: bool) -> None:
    """Examine the frameworks and print the results, step by step."""
    try:
        import torch
    except Exception as error:
        if not isinstance(error, ModuleNotFoundError) or error.name != "torch":
            _report(torch={"error": f"{type(error).__name__}: {error}"})
    else:
        _torch(torch, build)
    try:
        import cupy
    except Exception as error:
        if not isinstance(error, ModuleNotFoundError) or error.name != "cupy":
            failure = {"error": f"{type(error).__name__}: {error}", "packages": cupy_packages()}
            _report(cupy=failure)
    else:
        about = {
            "version": str(cupy.__version__),
            "path": os.path.dirname(cupy.__file__),
            "packages": cupy_packages(),
        }
        _report(cupy=about)
        _report(cupy={**about, **examine_cupy(cupy)})  # CUDA may fail here


def _torch(torch: Any, build: bool) -> None:
    _report(
        torch={
            "version": str(torch.__version__),
            "cuda": torch.version.cuda,
            "path": os.path.dirname(torch.__file__),
        }
    )

    from pgmo.allocator.adapters.torch_source import cpu_source, cuda_source

    _report(cpu_adapter=_adapter(cpu_source, build))
    if torch.version.cuda is None:
        return
    _report(cuda_adapter=_adapter(cuda_source, build))
    # From here on CUDA may fail.
    if not torch.cuda.is_available():
        try:
            torch.cuda.init()
            why = "no device"
        except Exception as error:
            why = str(error)
        _report(cuda={"error": why}, devices=[])
        return
    devices = []
    for index in range(torch.cuda.device_count()):
        given = torch.cuda.get_device_properties(index)
        devices.append(
            {
                "index": index,
                "name": given.name,
                "memory": given.total_memory,
                "capability": f"{given.major}.{given.minor}",
                "unified": _unified(index),
                "context": None,
            }
        )
    _report(cuda={}, devices=devices)
    for device in devices:
        size = measure_context(torch, device["index"])
        if size is not None:
            keep_context(device["name"], size)
            device["context"] = size
    _report(devices=devices)


def _unified(index: int) -> bool | None:
    """Return whether the device has `concurrentManagedAccess`; None if unknown."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    from pgmo.allocator.adapters.device_memory import CONCURRENT_MANAGED_ACCESS

    value, device = ctypes.c_int(), ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), index):
        return None
    if driver.cuDeviceGetAttribute(ctypes.byref(value), CONCURRENT_MANAGED_ACCESS, device):
        return None
    return bool(value.value)


def _adapter(source: "Callable[[], AdapterSource]", build: bool) -> dict[str, Any]:
    """Return an adapter's state, its path if known, and the reason if it cannot be used."""
    from pgmo.allocator.build.compile import adapter_path, compiled_adapter, kept_adapter
    from pgmo.allocator.build.prebuilt import find_prebuilt
    from pgmo.errors import AdapterError
    from pgmo.files.cache_folder import DamageError, DistrustError

    about = {}
    try:
        given = source()
        ready = find_prebuilt(given)
        if ready is not None:
            with suppress(OSError):  # the system's libraries are too old for the prebuilt adapter
                ctypes.CDLL(str(ready))
                return {"state": "prebuilt", "path": str(ready)}
        about = {"path": str(adapter_path(given))}
        with compiled_adapter(given) if build else kept_adapter(given) as path:
            ctypes.CDLL(str(path))
    except AdapterError as error:
        return {"state": "impossible", "reason": str(error)}
    except (FileNotFoundError, NotADirectoryError):
        return {"state": "missing", **about}
    except DamageError as error:
        return {"state": "damaged", **about, "reason": str(error)}
    except DistrustError as error:
        return {"state": "distrusted", **about, "reason": str(error)}
    except OSError as error:
        return {"state": "broken", **about, "reason": str(error)}
    return {"state": "built", **about}


def _report(**what: Any) -> None:
    print(json.dumps({"pgmo": what}), flush=True)


if __name__ == "__main__":
    main("--build" in sys.argv[1:])
