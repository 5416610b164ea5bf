"""Examine this machine: what pgmo can use, what limits it, and how to fix that.

Checks versions, GPUs, CuPy, the compiler, the adapters, the cache folder, memory, and the settings
of the frameworks' allocators. The frameworks are imported in a separate process, so that a broken
CUDA installation does no harm. Exit code 0: pgmo can serve a framework; 1: it can serve none.

--clear removes compiled adapters, the stub runtime and measured contexts: pgmo compiles again when
needed, this command measures again. Then, after `pip uninstall pgmo`, only your profiles and plans
remain.
"""

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from pgmo.cli.terminal.output import print_json
from pgmo.doctor.removal import KINDS, clear, remove_unusable_adapters
from pgmo.errors import OptionError
from pgmo.files.cache_folder import cache_directory
from pgmo.units import format_bytes

if TYPE_CHECKING:
    from pgmo.doctor.cache import Cache
    from pgmo.doctor.examination import Examination

_STATES = {
    "prebuilt": "comes with pgmo",
    "built": "built",
    "missing": "compiled when first used",
    "impossible": "cannot be built",
    "broken": "cannot be loaded",
    "damaged": "incomplete; compiled again when next used",
    "distrusted": (
        "not loaded, because other users may have written it; compiled again when next used"
    ),
}
_UNIFIED = {
    None: "",
    True: ", unified memory may exceed the card",
    False: ", unified memory cannot exceed the card (pgmo.managed and budget= do not work)",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pgmo doctor`."""
    parser.add_argument(
        "--fix",
        action="store_true",
        help="remove adapters that cannot be loaded, and compile missing adapters",
    )
    parser.add_argument(
        "--clear",
        nargs="?",
        const="all",
        choices=("all", *KINDS),
        help="remove files of this kind from the cache folder, and do nothing else (default: "
        "all kinds)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def run(arguments: argparse.Namespace) -> int:
    """Run `pgmo doctor`."""
    from pgmo.doctor.examination import examine

    if arguments.clear is not None:
        if arguments.fix:
            raise OptionError(
                "--clear only removes files and cannot be combined with --fix; "
                "leave one of them out"
            )
        _clear(arguments.clear, as_json=arguments.json)
        return 0
    done: tuple[str, ...] = ()
    if arguments.fix:
        done = remove_unusable_adapters(examine().frameworks)
    found = examine(build=arguments.fix)
    if arguments.json:
        fields = asdict(found)
        fields["cache"]["folder"] = str(found.cache.folder)
        print_json({**fields, "fixed": done} if arguments.fix else fields)
    else:
        print("\n".join([*(f"Fixed: {one}" for one in done), *_lines(found)]))
    return 0 if found.works else 1


def _clear(wanted: str, *, as_json: bool) -> None:
    gone = clear(KINDS if wanted == "all" else (wanted,))
    if as_json:
        rows = [{"kind": one.kind, "files": one.files, "bytes": one.size} for one in gone]
        print_json({"folder": str(cache_directory()), "removed": rows})
        return
    print(_line("cache", str(cache_directory())))
    for one in gone:
        print(_line(one.kind, f"removed {one.files} files, {format_bytes(one.size)}"))


def _lines(found: "Examination") -> Iterator[str]:
    versions = dict(found.versions)
    yield _line("pgmo", f"{versions.pop('pgmo')}, Python {versions.pop('python')}")
    yield _line("system", versions.pop("system"))
    if found.memory:
        total = f"{format_bytes(found.memory)}, {format_bytes(found.available)} available"
        yield _line("memory", total)
    torch = found.frameworks.get("torch", {})
    cupy = found.frameworks.get("cupy", {})
    for name, text in versions.items():
        if name == "torch" and "version" in torch:
            text += f", CUDA {torch['cuda']}" if torch["cuda"] else ", built without CUDA"
        elif name == "cupy" and cupy.get("packages"):
            text += f" ({', '.join(cupy['packages'])})"
        yield _line(name, text)
    if not cupy and found.driver and "failed" not in found.frameworks:
        yield _line("cupy", "not installed; pip install cupy-cuda13x if you use it")
    yield _line("driver", found.driver or "none")
    for device in found.frameworks.get("devices", ()):
        size = device.get("context")
        context = "" if size is None else f", a context takes {format_bytes(size)}"
        yield _line(
            f"cuda:{device['index']}",
            f"{device['name']}, {format_bytes(device['memory'])}, "
            f"compute capability {device['capability']}{_UNIFIED[device.get('unified')]}"
            f"{context}",
        )
    yield _line("compiler", found.compiler.version or found.compiler.command or "none")
    yield _line("cache", f"{found.cache.folder}{_kept(found.cache)}")
    for key, name in (("cpu_adapter", "CPU"), ("cuda_adapter", "CUDA")):
        if key in found.frameworks:
            yield _line("adapter", f"{name}: {_STATES[found.frameworks[key]['state']]}")
    for problem in found.problems:
        yield ""
        yield f"{problem.severity.capitalize()}: {problem.what}"
        yield from (f"  {line}" for line in problem.remedy.splitlines())
    yield ""
    if found.works:
        yield f"pgmo works here with {' and '.join(found.works)}."
    else:
        yield "pgmo cannot serve any framework here; it can still read profiles and make plans."


def _kept(cache: "Cache") -> str:
    parts = []
    if cache.adapters:
        several = "s" if cache.adapters > 1 else ""
        parts.append(f"{cache.adapters} adapter{several}, {format_bytes(cache.size)}")
    if cache.left:
        parts.append(f"{cache.left} left by killed processes, removed when next used")
    return f" ({'; '.join(parts)})" if parts else ""


def _line(name: str, text: str) -> str:
    return f"{name:<10}  {text}"
