"""Builds the stub CUDA runtime for the torch of another Python interpreter.

    python pgmo/rehearsal/build.py --python PYTHON --out build/fakecuda
    build/fakecuda/run PYTHON train.py

csrc/rehearsal implements the functions that must do something. All other functions that torch
imports or looks up in the runtime, the driver, cuBLAS or cuDNN are generated, and return success.
The library is named libcuda.so.1: programs that load the driver by name get the preloaded library.
This module uses only the standard library.
"""

import argparse
import concurrent.futures
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
# The first folder belongs to an installed pgmo, the second to a checkout.
FOLDERS = (PACKAGE / "_csrc/rehearsal", PACKAGE.parent / "csrc/rehearsal")
SOURCES = [source for folder in FOLDERS for source in sorted(folder.rglob("*.cpp"))]
HEADERS = [header for folder in FOLDERS for header in sorted(folder.rglob("*.hpp"))]
LIBRARY = "libcuda.so.1"
OURS = re.compile(r"(cuda[A-Z]|cublas|cudnn|cu[A-Z]|__cudaGetKernel$|__cudaLaunchKernel$)\w+")
LEFT_ALONE = re.compile(r"cuFile")  # another library, which torch ships
# Functions that programs such as Triton look up in the driver by name, and that do nothing here.
ALWAYS = {
    *("cuInit", "cuGetProcAddress_v2", "cuDevicePrimaryCtxRelease_v2", "cuCtxSetLimit"),
    *("cuModuleUnload", "cuFuncSetAttribute", "cuFuncSetCacheConfig"),
}


class BuildError(Exception):
    """Error for a failed build; the message gives the reason."""


def main() -> None:
    """Build the library for the arguments of the command line, unless it is up to date."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="Python with CUDA torch")
    parser.add_argument("--out", type=Path, default=Path("build/fakecuda"))
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    try:
        torch = find_torch(arguments.python)
        stamp = f"{torch}\n{newest([*SOURCES, *HEADERS, Path(__file__)])}\n"
        if not (out / "stamp").exists() or (out / "stamp").read_text() != stamp:
            write_script(build(torch, out))
            (out / "stamp").write_text(stamp)
    except BuildError as error:
        sys.exit(str(error))
    print(f"{out}/run PYTHON SCRIPT runs on the stub CUDA runtime", file=sys.stderr)


def find_torch(python: str) -> Path:
    """Return the folder of an interpreter's CUDA build of torch, or raise `BuildError`."""
    # An import of torch would need a CUDA runtime.
    code = "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    shown = subprocess.run([python, "-c", code], capture_output=True, text=True)
    if shown.returncode:
        raise BuildError(f"{python} has no torch: install the CUDA build of it there first")
    folder = Path(shown.stdout.strip())
    if not (folder / "lib/libtorch_cuda.so").exists():
        raise BuildError(
            f"the torch of {python} is not a CUDA build: {folder}/lib has no libtorch_cuda.so"
        )
    return folder


def newest(files: list[Path]) -> int:
    """Return the latest modification time of the files, in nanoseconds."""
    return max(file.stat().st_mtime_ns for file in files)


def build(torch: Path, out: Path, compiler: Sequence[str] = ("g++",)) -> Path:
    """Compile the library into the existing folder `out`; return its path or raise `BuildError`."""
    flags = ["-std=c++20", "-O1", "-fPIC", "-Wall", "-Wextra"]
    command = [*compiler, *flags, *(f"-isystem{folder}" for folder in headers(torch))]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        jobs = [
            pool.submit(run, *command, "-c", str(source), "-o", str(out / f"{source.stem}.o"))
            for source in SOURCES
        ]
        for job in jobs:
            job.result()
    objects = [str(out / f"{source.stem}.o") for source in SOURCES]
    written = set(run("nm", "--defined-only", "--format=posix", *objects).split())
    trivial = sorted((imported(torch) | looked_up(torch) | ALWAYS) - written)
    lines = [f'extern "C" int {name}() {{ return 0; }}' for name in trivial]
    (out / "trivial.cpp").write_text("\n".join(lines) + "\n")
    run(*command, "-w", "-c", str(out / "trivial.cpp"), "-o", str(out / "trivial.o"))
    link = [*compiler, "-shared", f"-Wl,-soname,{LIBRARY}", *objects, str(out / "trivial.o")]
    run(*link, "-o", str(out / LIBRARY))
    return out / LIBRARY


def write_script(library: Path) -> None:
    """Write the script `run` beside the library; the script runs programs on the stub."""
    script = library.with_name("run")
    script.write_text(
        f'#!/bin/sh\nexec env PGMO_FAKECUDA="{library}" LD_PRELOAD="{library}" "$@"\n'
    )
    script.chmod(0o755)


def headers(torch: Path) -> list[Path]:
    """Return the folders of headers for torch's major version of CUDA, or raise `BuildError`.

    Headers come from Triton, from a toolkit, or from the runtime's wheel. The wheel lacks a few
    files that are equal in all versions. These files are taken from Triton.
    """
    triton = torch.parent / "triton/backends/nvidia/include"
    folders = [triton, *sorted(Path("/usr/local").glob("cuda*/include"), reverse=True)]
    folders += sorted((torch.parent / "nvidia").glob("*/include"))
    wanted = toolkit_version(torch)
    fitting = [folder for folder in folders if header_version(folder) == wanted]
    complete = [folder for folder in fitting if (folder / "crt/host_defines.h").exists()]
    if complete:
        return complete[:1]
    if fitting and (triton / "crt/host_defines.h").exists():
        return [fitting[0], triton]
    raise BuildError(
        f"no headers of CUDA {wanted} (cuda.h, cuda_runtime_api.h, crt/host_defines.h) in any of "
        f"{', '.join(map(str, folders))}: install triton next to torch, or the CUDA toolkit"
    )


def toolkit_version(torch: Path) -> int:
    """Return the major version of CUDA that torch was built with, or raise `BuildError`."""
    text = (torch / "version.py").read_text()
    found = re.search(r"^cuda\b.*?=\s*['\"](\d+)", text, re.MULTILINE)
    if not found:
        raise BuildError(f"{torch}/version.py names no CUDA version")
    return int(found[1])


def header_version(folder: Path) -> int | None:
    """Return the major version of the headers in a folder; None if missing or unknown."""
    if not all((folder / name).exists() for name in ("cuda.h", "cuda_runtime_api.h")):
        return None
    text = (folder / "cuda_runtime_api.h").read_text(errors="replace")
    found = re.search(r"#define CUDART_VERSION\s+(\d+)", text)
    return int(found[1]) // 1000 if found else None


def looked_up(torch: Path) -> set[str]:
    """Return the driver functions that torch looks up by name. Torch fails without some of them."""
    text = (torch / "lib/libc10_cuda.so").read_bytes()
    named = {name.decode() for name in re.findall(rb"\0(cu[A-Z]\w+)(?=\0)", text)}
    declared = set(re.findall(r"\bcu[A-Z]\w+", (headers(torch)[0] / "cuda.h").read_text()))
    return named & declared


def imported(torch: Path) -> set[str]:
    """Return the names that torch's libraries import and that the stub must provide."""
    names = set()
    for library in sorted((torch / "lib").glob("*.so")):
        shown = run("nm", "-D", "--undefined-only", "--format=posix", str(library))
        symbols = {line.split()[0].partition("@")[0] for line in shown.splitlines() if line}
        names |= {name for name in symbols if OURS.fullmatch(name) and not LEFT_ALONE.match(name)}
    return names


def run(*command: str) -> str:
    """Run a command and return its output; raise `BuildError` if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise BuildError(f"cannot run {command[0]}: {error.strerror}") from error
    if done.returncode:
        raise BuildError(f"{json.dumps(command)} failed:\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
