"""Tests that no two types of the package, and no two of the native code, share a name."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pgmo

PRODUCT = Path(pgmo.__file__).parent
NATIVE = PRODUCT.parent / "csrc"

NATIVE_TYPE = re.compile(
    r"^(?:enum class|enum|class|struct|union) (?:alignas\(\w+\) )?"
    r"(\w+)(?: final)?(?: :[^;{]*)? *\{",
    re.MULTILINE,
)
"""Pattern of a type in a namespace, which clang-format does not indent, unlike nested types."""


def python_types(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def native_types(source: str) -> Iterator[str]:
    for match in NATIVE_TYPE.finditer(source):
        yield match[1]


def repeated(types, folder, *patterns):
    """Return the names that occur more than once, with their files."""
    files = defaultdict(list)
    for pattern in patterns:
        for path in sorted(folder.rglob(pattern)):
            for name in types(path.read_text(encoding="utf-8")):
                files[name].append(str(path.relative_to(folder)))
    assert len(files) > 100
    return {name: paths for name, paths in files.items() if len(paths) > 1}


def test_no_two_classes_of_the_package_share_a_name():
    assert not repeated(python_types, PRODUCT, "*.py")


def test_no_two_types_of_the_native_code_share_a_name():
    assert repeated(native_types, NATIVE, "*.hpp", "*.cpp") == {}


def test_types_are_found():
    assert list(python_types("class A:\n    class B: ...\ndef f():\n    class _C: ...")) == [
        "A",
        "B",
    ]
    source = "class A;\nstruct B {\n  struct C {\n  };\n};\nenum class D : int { kOne };\n"
    source += "class E final : public A {\nstruct alignas(32) F {\nclass G* find();\n"
    assert list(native_types(source)) == ["B", "D", "E", "F"]
