"""Puts an SBOM into a wheel, at `dist-info/sboms/pgmo.cdx.json` (PEP 770, CycloneDX 1.6).

    python packaging/sbom.py dist/pgmo-0.1.0-....whl

It names what is inside of the wheel and was made by others. Dependencies are in the metadata.
"""

import re
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import ziglang
from cyclonedx.model import ExternalReference, ExternalReferenceType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense, LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

ROOT = Path(__file__).resolve().parents[1]
VENDOR = ROOT / "pgmo" / "report" / "assets" / "vendor"
"""uPlot, whose first line names its version."""


def bill(name: str, release: str) -> Bom:
    """What is in the wheel of a release."""
    bom = Bom()
    bom.metadata.component = Component(
        name=name,
        version=release,
        type=ComponentType.LIBRARY,
        bom_ref=name,
        licenses=[LicenseExpression("Apache-2.0 AND MIT AND BSD-3-Clause")],
        purl=PackageURL("pypi", None, name, release),
    )
    found = re.search(r"uPlot \(v([\d.]+)\)", (VENDOR / "uPlot.iife.min.js").read_text()[:200])
    assert found is not None
    home = ExternalReference(
        type=ExternalReferenceType.WEBSITE, url=XsUri("https://github.com/leeoniya/uPlot")
    )
    inside = [
        Component(
            name="uplot",
            version=found[1],
            type=ComponentType.LIBRARY,
            bom_ref="uplot",
            licenses=[DisjunctiveLicense(id="MIT")],
            copyright="Copyright (c) 2022 Leon Sorokin",
            purl=PackageURL("npm", None, "uplot", found[1]),
            external_references=[home],
        ),
        # Header-only: its code is compiled into the native module.
        Component(
            name="pybind11",
            version=version("pybind11"),
            type=ComponentType.LIBRARY,
            bom_ref="pybind11",
            licenses=[DisjunctiveLicense(id="BSD-3-Clause")],
            purl=PackageURL("pypi", None, "pybind11", version("pybind11")),
        ),
        # Linked into the native module (see compilers.py), with libc++abi and libunwind.
        Component(
            name="libc++",
            version=libcxx_version(),
            type=ComponentType.LIBRARY,
            bom_ref="libc++",
            licenses=[LicenseExpression("Apache-2.0 WITH LLVM-exception")],
            external_references=[
                ExternalReference(
                    type=ExternalReferenceType.WEBSITE, url=XsUri("https://libcxx.llvm.org")
                )
            ],
        ),
    ]
    bom.components.update(inside)
    bom.register_dependency(bom.metadata.component, inside)
    return bom


def libcxx_version() -> str:
    """The version of libc++ that comes with zig, such as "21.1.0"."""
    headers = Path(ziglang.__file__).parent / "lib" / "libcxx" / "include"
    found = re.search(
        r"define _LIBCPP_VERSION (\d\d)(\d\d)(\d\d)", (headers / "__config").read_text()
    )
    assert found is not None
    return ".".join(str(int(part)) for part in found.groups())


def main(wheel: Path) -> None:
    """Unpacks the wheel, adds the file, and packs it again in its place."""
    name, release = wheel.name.split("-")[:2]
    with tempfile.TemporaryDirectory() as folder:
        _wheel("unpack", "--dest", folder, str(wheel))
        (tree,) = Path(folder).iterdir()
        (info,) = tree.glob("*.dist-info")
        (info / "sboms").mkdir(exist_ok=True)
        text = JsonV1Dot6(bill(name, release)).output_as_string(indent=2)
        (info / "sboms" / f"{name}.cdx.json").write_text(text)
        wheel.unlink()
        _wheel("pack", "--dest-dir", str(wheel.parent), str(tree))


def _wheel(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "wheel", *arguments], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
