"""Compilation of the adapters for the PyTorch of this Python, which a wheel then contains.

    .venv/bin/python packaging/prebuild.py --out pgmo/_prebuilt

Run the script once with each Python whose PyTorch the wheel should serve. Files that are in the
folder already stay. For a CUDA build of PyTorch, the script compiles the adapters for CPU and CUDA,
and the extension module of `pgmo.torch_allocator`. For a CPU build, it compiles the CPU adapter.
"""

import argparse
import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pgmo.allocator.adapters import torch_allocator, torch_source
from pgmo.allocator.build.compile import AdapterSource, compile_adapter
from pgmo.allocator.build.prebuilt import (
    SWITCH,
    Prebuilt,
    digest_of,
    made_from,
    read_manifest,
    write_manifest,
)


def sources() -> Iterator[AdapterSource]:
    """Yield the sources that are compiled for the installed PyTorch."""
    yield torch_source.cpu_source()
    if torch_source.imported_torch().version.cuda is not None:
        yield torch_source.cuda_source()
        yield torch_allocator.module_source()


def prebuild(source: AdapterSource, out: Path) -> Prebuilt:
    """Compile one library to the folder `out`, and return its row of the manifest.

    Raises:
        SystemExit: if the library would search for other libraries in folders of this machine.
    """
    assert source.headers is not None
    own = made_from(source)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for file, text in source.generated.items():
            (folder / file).write_text(text)
        rules = folder / "rules.d"
        library = compile_adapter(source, folder, "-MD", "-MF", str(rules), "-Wl,--strip-all")
        headers = included(rules, source.headers)
        digest = digest_of(source.headers, headers)
        version = source.version.partition("+")[0]
        python = [word.removeprefix("python ") for word in source.abi if word.startswith("python ")]
        name = "-".join([source.name, version, *python, own[:8] + digest[:8]])
        target = out / f"{name}.so"
        target.write_bytes(library.read_bytes())
    needed = subprocess.run(
        ["readelf", "-d", str(target)], capture_output=True, text=True, check=True
    )
    for line in needed.stdout.splitlines():
        if "RPATH" in line or "RUNPATH" in line:
            raise SystemExit(f"{target} looks for libraries in a folder of this machine: {line}")
    return Prebuilt(target.name, own, headers, digest, source.what)


def included(rules: Path, folder: Path) -> tuple[str, ...]:
    """Return the headers of a folder that a compilation has read, from its dependency file."""
    words = shlex.split(rules.read_text().replace("\\\n", " "))
    base = os.path.realpath(folder)
    paths = (os.path.realpath(word) for word in words if not word.endswith(":"))
    found = {os.path.relpath(path, base) for path in paths if path.startswith(f"{base}{os.sep}")}
    return tuple(sorted(found))


def main() -> None:
    """Compile all sources, and add the libraries to the manifest."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    os.environ[SWITCH] = "0"
    rows = {row.file: row for row in read_manifest(out)}
    for source in sources():
        row = prebuild(source, out)
        rows[row.file] = row
        size = (out / row.file).stat().st_size
        print(f"{row.file}: {row.what}, {size} bytes, {len(row.headers)} headers")
    write_manifest(rows.values(), out)


if __name__ == "__main__":
    main()
