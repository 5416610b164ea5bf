"""The parts of the fake allocator that follow PyTorch's headers, written in C++."""

import re
from pathlib import Path

from pgmo.allocator.build.virtual_methods import ClassText, Method, read_class

HEADERS = (
    "c10/cuda/CUDACachingAllocator.h",
    "c10/core/CachingDeviceAllocator.h",
    "c10/core/Allocator.h",
)

WITH_BEHAVIOUR = {
    *("allocate", "raw_deleter", "raw_alloc", "raw_alloc_with_stream", "raw_delete"),
    *("recordStream", "getBaseAllocation", "shareIpcHandle"),
    *("beginAllocateToPool", "endAllocateToPool"),
}
"""Written by hand in fake/upstream.hpp."""


def methods(include: Path) -> list[tuple[ClassText, Method]]:
    """All virtual methods of PyTorch's class and its bases, overridden ones once."""
    texts = [(include / name).read_text() for name in HEADERS]
    wanted, found, seen = ["CUDAAllocator"], [], set()
    while wanted:
        name = wanted.pop(0)
        owner = next(filter(None, (read_class(text, name) for text in texts)))
        wanted += owner.bases
        for method in owner.methods:
            types = (re.sub(r"\w+::", "", each.type) for each in method.parameters)
            key = (method.name, *types, *method.qualifiers)
            if key not in seen:
                found.append((owner, method))
            seen.add(key)
    return found


def fake_methods(include: Path) -> str:
    """Methods that note their arguments and answer with a sample, for the body of the class."""
    lines = []
    for _, method in methods(include):
        if method.name in WITH_BEHAVIOUR:
            continue
        declared = [f"{each.type} a{at}" for at, each in enumerate(method.parameters)]
        passed = [f'"{method.name}"', *(f"a{at}" for at in range(len(declared)))]
        lines.append(
            f"{method.returns} {method.name}({', '.join(declared)}) "
            f"{' '.join(method.qualifiers)} override "
            f"{{ return answer<{method.returns}>({', '.join(passed)}); }}"
        )
    return "\n".join(lines) + "\n"


def fake_calls(include: Path) -> str:
    """For each of these methods a call through the interface, with arguments that differ."""
    lines = []
    for owner, method in methods(include):
        if method.name in WITH_BEHAVIOUR:
            continue
        arguments = [
            f"auto a{at} = sample<std::remove_cvref_t<{each.type}>>({at + 1});"
            for at, each in enumerate(method.parameters)
        ]
        passed = ", ".join(f"a{at}" for at in range(len(arguments)))
        through = "on" if owner.name == "CUDAAllocator" else f"static_cast<{owner.name}*>(on)"
        lines.append(
            f'{{"{method.name}", [](CUDAAllocator* on) {{ {" ".join(arguments)} '
            f"return result_of([&] {{ return {through}->{method.name}({passed}); }}); }}}},"
        )
    return "\n".join(lines) + "\n"


def macros(forwarders: str) -> str:
    """Which methods this PyTorch has, from the text that is generated for the adapter."""
    return "\n".join(line for line in forwarders.splitlines() if line.startswith("#define")) + "\n"
