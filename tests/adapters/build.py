"""Compiles the CUDA adapter with a runtime and an allocator beneath that need no CUDA.

    csrc/adapters/torch_cuda.cpp ──┐
    fake/runtime.cpp  the runtime  ├─▶ one library, bound to itself, linked with libc10
    fake/client.cpp   PyTorch      ┘     fake/state.cpp: what the runtime knows
                                         fake/controls.cpp: how tests steer it

What the adapter uses of the runtime and fake/ lacks is an undefined name when they are linked.

One library, because in a process with a CUDA build of PyTorch the real runtime has the same names.
The result is kept in build/, and made again when anything that it is made of has changed.
"""

import hashlib
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from filelock import FileLock

from pgmo.allocator.build.compile import find_compiler
from pgmo.allocator.build.forwarders import forwarders, trace_methods
from tests.adapters.interface import fake_calls, fake_methods, macros

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CSRC = ROOT / "csrc"
CUDA_HEADERS = ROOT / "tests" / "unit" / "allocator" / "cuda_headers"

RUNTIME = ("state", "runtime", "controls")
"""Sources of the runtime in fake/."""

BREAK_RECORD_STREAM = "PGMO_BREAK_RECORD_STREAM"
"""Compiled in, slots are free at once, whichever streams use them."""


def build() -> dict[str, Path]:
    """The libraries by name: "sound", and "broken", in which record_stream does nothing."""
    import torch

    root = Path(torch.__file__).parent
    include = root / "include"
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"
    forwarding = forwarders(include)
    generated = {
        "torch_cuda_forwarders.inc": forwarding,
        "torch_trace_methods.inc": trace_methods(include),
        "fake_methods.inc": fake_methods(include),
        "fake_calls.inc": fake_calls(include),
        "fake_macros.hpp": macros(forwarding),
    }
    compiler = find_compiler("the tests")
    folder = ROOT / "build" / "adapters" / _fingerprint(generated, compiler, str(root))
    libraries = {name: folder / f"{name}.so" for name in ("sound", "broken")}
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"):
        if all(path.exists() for path in libraries.values()):
            return libraries
        for name, text in generated.items():
            (folder / name).write_text(text)
        command = [
            *(*compiler, "-std=c++20", "-O1", "-fPIC", "-Wall", "-Wextra", "-Werror", abi),
            *("-DC10_CUDA_NO_CMAKE_CONFIGURE_FILE", "-isystem", str(include)),
            *("-isystem", str(CUDA_HEADERS), "-I", str(folder), "-I", str(CSRC), "-c"),
        ]
        if "CUDAErrorLogCapture" in (include / "c10/cuda/CUDAException.h").read_text():
            command.append("-DPGMO_CUDA_ERROR_LOG")
        adapter = CSRC / "adapters" / "torch_cuda.cpp"
        jobs = {
            "sound.o": (adapter,),
            "client.o": (HERE / "fake/client.cpp", "-include", str(folder / "fake_macros.hpp")),
            "broken.o": (adapter, f"-D{BREAK_RECORD_STREAM}"),
            **{f"{name}.o": (HERE / "fake" / f"{name}.cpp",) for name in RUNTIME},
        }
        with ThreadPoolExecutor(2) as pool:
            done = [
                pool.submit(_run, *command, *map(str, job), "-o", str(folder / name))
                for name, job in jobs.items()
            ]
            for one in done:
                one.result()
        for name, path in libraries.items():
            objects = [str(folder / f"{each}.o") for each in (name, "client", *RUNTIME)]
            unfinished = path.with_suffix(".tmp")
            library = str(root / "lib")
            link = ["-shared", "-Wl,-Bsymbolic", "-Wl,-z,defs", f"-Wl,-rpath,{library}"]
            _run(*compiler, *link, *objects, "-o", str(unfinished), f"-L{library}", "-lc10")
            unfinished.replace(path)
        for name in jobs:
            (folder / name).unlink()  # many megabytes
    return libraries


def _fingerprint(generated: dict[str, str], compiler: list[str], torch: str) -> str:
    digest = hashlib.sha256()
    sources = [CSRC / "engine" / "pgmo_engine.h", Path(__file__)]
    for folder in (CSRC / "adapters", HERE / "fake", CUDA_HEADERS):
        sources += sorted(path for path in folder.rglob("*.[ch]*") if path.is_file())
    for path in sources:
        digest.update(path.read_bytes())
    for text in (*generated.values(), *compiler, torch):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:16]


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
