"""Builds the stub CUDA runtime for the torch that another Python has.

    python pgmo/rehearsal/build.py --python PYTHON --out build/fakecuda
    build/fakecuda/run PYTHON train.py

What needs behaviour is written in csrc/rehearsal. The rest is generated: each other function that
the installed torch imports from the runtime, the driver or cuBLAS becomes one that returns success.
Everything is one library that calls itself libcuda.so.1, so that preloading it also answers
those who load the driver by name. Only the standard library is used.
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
FOLDERS = (PACKAGE / "_csrc/rehearsal", PACKAGE.parent / "csrc/rehearsal")  # installed, a checkout
SOURCES = [source for folder in FOLDERS for source in sorted(folder.rglob("*.cpp"))]
HEADERS = [header for folder in FOLDERS for header in sorted(folder.rglob("*.hpp"))]
LIBRARY = "libcuda.so.1"
OURS = re.compile(r"(cuda[A-Z]|cublas|cudnn|cu[A-Z]|__cudaGetKernel$|__cudaLaunchKernel$)\w+")
LEFT_ALONE = re.compile(r"cuFile")  # another library, which comes with torch
ALWAYS = {"cuInit", "cuGetProcAddress_v2", "cuDevicePrimaryCtxRelease_v2"}


class BuildError(Exception):
    """It cannot be built here; the message says why."""


def main() -> None:
    """Builds what the command line asks for, unless it is there and up to date."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="one that has the CUDA torch")
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
    """The installed torch's folder, which is not imported: that would want the real runtime."""
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
    """When the latest of the files was changed, in nanoseconds."""
    return max(file.stat().st_mtime_ns for file in files)


def build(torch: Path, out: Path, compiler: Sequence[str] = ("g++",)) -> Path:
    """Compiles the library into the folder; returns the file.

    Args:
        torch: the folder of the installed torch.
        out: where to; it exists.
        compiler: a C++20 compiler, and arguments of it.

    Raises:
        BuildError: when the compiler fails, or headers are missing.
    """
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
    """Writes the script beside the library that runs programs on it."""
    script = library.with_name("run")
    script.write_text(
        f'#!/bin/sh\nexec env PGMO_FAKECUDA="{library}" LD_PRELOAD="{library}" "$@"\n'
    )
    script.chmod(0o755)


def headers(torch: Path) -> list[Path]:
    """Folders of the headers of torch's own CUDA: structures differ between major versions.

    The toolkit's, or triton's, or those of the runtime's wheel, which lack a few files that
    triton has and that are alike in all versions.
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
    """The major version of CUDA that torch was built with."""
    text = (torch / "version.py").read_text()
    found = re.search(r"^cuda\b.*?=\s*['\"](\d+)", text, re.MULTILINE)
    if not found:
        raise BuildError(f"{torch}/version.py names no CUDA version")
    return int(found[1])


def header_version(folder: Path) -> int | None:
    """The major version of the headers in a folder; None if they are not there."""
    if not all((folder / name).exists() for name in ("cuda.h", "cuda_runtime_api.h")):
        return None
    text = (folder / "cuda_runtime_api.h").read_text(errors="replace")
    found = re.search(r"#define CUDART_VERSION\s+(\d+)", text)
    return int(found[1]) // 1000 if found else None


def looked_up(torch: Path) -> set[str]:
    """Driver functions that torch finds by name, some of which it insists on."""
    text = (torch / "lib/libc10_cuda.so").read_bytes()
    named = {name.decode() for name in re.findall(rb"\0(cu[A-Z]\w+)(?=\0)", text)}
    declared = set(re.findall(r"\bcu[A-Z]\w+", (headers(torch)[0] / "cuda.h").read_text()))
    return named & declared


def imported(torch: Path) -> set[str]:
    """Names that torch's libraries import and that this stub is to answer."""
    names = set()
    for library in sorted((torch / "lib").glob("*.so")):
        shown = run("nm", "-D", "--undefined-only", "--format=posix", str(library))
        symbols = {line.split()[0].partition("@")[0] for line in shown.splitlines() if line}
        names |= {name for name in symbols if OURS.fullmatch(name) and not LEFT_ALONE.match(name)}
    return names


def run(*command: str) -> str:
    """What the command prints.

    Raises:
        BuildError: when it fails, or there is no such program.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise BuildError(f"cannot run {command[0]}: {error.strerror}") from error
    if done.returncode:
        raise BuildError(f"{json.dumps(command)} failed:\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
