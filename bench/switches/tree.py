"""A copy of pgmo whose native numbers are read from the environment.

In the project itself they are constants of the compiler: nothing that serves a request looks
anything up. Here each becomes a variable with the same value, unless `PGMO_TUNING_NAME` says
another one before the native module is loaded.
"""

import re
import shutil
import subprocess
from pathlib import Path

BUILD = "tests/gpu/build_native.py"
HEADERS = ("csrc/engine/tuning.hpp", "csrc/pages/tuning.hpp")
PREFIX = "PGMO_TUNING_"

_CONSTANT = re.compile(r"^constexpr ([\w:]+) (k\w+) = (.+);$", re.MULTILINE)
_MEMBER = re.compile(r"^  (Bytes|std::size_t) (\w+) = (.+);$", re.MULTILINE)
_ARRAY = re.compile(r"(std::array<\w+, tuning::k\w+)>")
_HEADER = "csrc/switched.hpp"
_READ = """#pragma once

#include <cstdlib>

namespace pgmo {

template <typename T>
T switched(const char* name, T usual) {
  const char* text = std::getenv(name);
  return text == nullptr ? usual : static_cast<T>(std::strtod(text, nullptr));
}

}  // namespace pgmo
"""


def build(python: str, root: Path, out: Path) -> Path:
    """Makes the copy, unless it is there and current; returns where.

    Args:
        python: whose headers and pybind11 the native module is built with.
        root: the project.
        out: a folder of its own.
    """
    out.mkdir(parents=True, exist_ok=True)
    for source in [root / "setup.py", root / BUILD, *(root / "csrc").rglob("*.[ch]*")]:
        _write(out / source.relative_to(root), switched(source, root))
    _write(out / _HEADER, _READ.encode())
    for source in [*(root / "pgmo").rglob("*"), *(root / "packaging").rglob("*.py")]:
        if source.is_file() and source.suffix not in (".so", ".pyc"):
            _write(out / source.relative_to(root), source.read_bytes())
    for name in ("pyproject.toml", "README.md"):
        shutil.copyfile(root / name, out / name)
    # It compiles anew only where a source is newer.
    subprocess.run([python, str(out / BUILD)], check=True, stdout=subprocess.DEVNULL)
    return out


def is_copy(root: Path) -> bool:
    """Whether a folder is such a copy, whose numbers can be switched."""
    return (root / _HEADER).exists()


def numbers(root: Path) -> set[str]:
    """The names of all native ones."""
    texts = [(root / header).read_text("utf-8") for header in HEADERS]
    return {
        name for one in (_CONSTANT, _MEMBER) for text in texts for _, name, _ in one.findall(text)
    }


def switched(source: Path, root: Path) -> bytes:
    """A source as the copy has it."""
    text = source.read_text("utf-8")
    if source.relative_to(root).as_posix() in HEADERS:
        text = _CONSTANT.sub(
            rf'constexpr \1 \2Usual = \3;\ninline const \1 \2 = switched<\1>("{PREFIX}\2", \3);',
            text,
        )
        text = _MEMBER.sub(rf'  \1 \2 = switched<\1>("{PREFIX}\2", \3);', text)
        text = text.replace("#pragma once\n", '#pragma once\n#include "switched.hpp"\n', 1)
    # Arrays have the usual length: rules are switched off by lower numbers.
    return _ARRAY.sub(r"\1Usual>", text).encode()


def _write(path: Path, content: bytes) -> None:
    if path.exists() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
