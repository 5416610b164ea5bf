"""Generator of the methods by which the CUDA adapter forwards requests to the allocator beneath.

PyTorch's `CUDAAllocator` has about forty virtual methods, whose set and signatures change with
almost every version. The adapter's source defines some of them. This module generates the other
methods from the headers of the installed PyTorch, just before the adapter is compiled.

A method that takes an address may get the address of a slot, which the allocator beneath does not
know. A method that takes an address is forwarded only if it was reviewed and is listed here. If the
method is not listed, the adapter is not compiled.

PyTorch reports each event that a program records or waits for. The receiver must be of a class that
represents a whole interpreter. The adapter's class (csrc/adapters/cuda/history/trace.hpp) only
receives these reports, so this module generates all other methods of the class. They throw.

Source: `c10/cuda/CUDACachingAllocator.h`, `c10/core/CachingDeviceAllocator.h`,
`c10/core/Allocator.h` and `c10/core/impl/PyInterpreter.h` of PyTorch 2.6 to 2.15.
"""

import re
from pathlib import Path

from pgmo.allocator.build.virtual_methods import ClassText, Method, UnreadableError, read_class
from pgmo.errors import AdapterError

_ROOT = "CUDAAllocator"
_HEADERS = (
    "c10/cuda/CUDACachingAllocator.h",
    "c10/core/CachingDeviceAllocator.h",
    "c10/core/Allocator.h",
)

# Methods written by hand in csrc/adapters/torch_cuda.cpp.
_HAND_WRITTEN = frozenset(
    {
        *("allocate(size_t)", "raw_deleter()", "copy_data(void*, const void*, size_t)"),
        *("raw_alloc(size_t)", "raw_alloc_with_stream(size_t, cudaStream_t)", "raw_delete(void*)"),
        *("recordStream(const DataPtr&, CUDAStream)", "recordStream(const DataPtr&, Stream)"),
        *("getBaseAllocation(void*, size_t*)", "shareIpcHandle(void*)"),
        "beginAllocateToPool(DeviceIndex, MempoolId_t, function<bool(cudaStream_t)>)",
        *("endAllocateToPool(DeviceIndex, MempoolId_t)", "allocateWithAddress(size_t, void*)"),
        *("markCaptureBegin(DeviceIndex)", "markCaptureEnd(DeviceIndex)"),
        *("getDeviceStats(DeviceIndex)", "resetPeakStats(DeviceIndex)"),
        *("emptyCache()", "emptyCache(MempoolId_t)", "resetAccumulatedStats(DeviceIndex)"),
        *("setMemoryFraction(double, DeviceIndex)", "getMemoryFraction(DeviceIndex)"),
        *("enable(bool)", "init(int)", "enablePeerAccess(DeviceIndex, DeviceIndex)"),
    }
)
_HAND_WRITTEN_NAMES = frozenset(signature.partition("(")[0] for signature in _HAND_WRITTEN)
# Suffixes of the PGMO_HAS_ macros of overloads; the suffix of any other method is its name.
_OVERLOADS = {
    "recordStream(const DataPtr&, CUDAStream)": "recordStream_CUDAStream",
    "recordStream(const DataPtr&, Stream)": "recordStream_c10_Stream",
    "emptyCache()": "emptyCache_all",
    "emptyCache(MempoolId_t)": "emptyCache_pool",
}
_IN_SOME_VERSIONS = frozenset(
    {"recordStream_c10_Stream", "allocateWithAddress", "markCaptureBegin", "markCaptureEnd"}
    | {"emptyCache_all", "emptyCache_pool"}
)

# Forwarded methods for which the adapter does something before or after the call. Their arguments
# differ between versions, so the adapter's functions for them are templates.
_WITH_EXTRA_WORK = {
    "snapshot": "with_pages({all})",
    "recordHistory": "note_history({arguments}), {call}",
    "releasePool": "{call}, note_release(upstream_, {arguments})",
    "createOrIncrefPool": "{call}, note_pool(upstream_, {arguments})",
    "setNoSplit": "{call}, leave_pool({arguments})",
}

# Methods that take addresses and may be forwarded. Only the address parameters are listed.
_REVIEWED = frozenset(
    {
        "is_simple_data_ptr(const DataPtr&)",  # compares the pointer's own two fields
        "cacheInfo(size_t*)",  # writes its result to the address
        "checkPoolLiveAllocations(const unordered_set<void*>&)",  # in pools, which have no slots
        "createOrIncrefPool(CUDAAllocator*)",  # 2.8 to 2.10: the pool's own allocator
        "memcpyAsync(void*, const void*)",  # queries only the devices of the addresses
        "getContextForPointer(const void*)",  # looks the address up, and does not find a slot
        "annotateMemory(const void*)",  # in 2.14; looks the address up, and throws for a slot
    }
)
_ADDRESS_TYPE = re.compile(
    r"\*|\b(DataPtr|u?intptr_t|CUdeviceptr|Tensor\w*|Storage\w*)\b|_ptr<(const )?void"
)
_INTEGER_TYPE = re.compile(r"(const )?(size_t|u?int64_t|ptrdiff_t|unsigned long( long)?)&?\Z")
_ADDRESS_NAME = re.compile(r"addr|ptr|pointer", re.IGNORECASE)
_NAMESPACES = re.compile(r"(?<!\w)(?:::)?(?:(?:c10|at|std|cuda|CUDACachingAllocator)::)+")

_TRACE_CLASS = "PyInterpreterVTable"
_TRACE_HEADER = "c10/core/impl/PyInterpreter.h"
_TRACE = "trace_gpu_"
_TRACES = frozenset(
    {
        *("event_creation", "event_deletion", "event_record", "event_wait"),
        *("event_synchronization", "stream_synchronization", "device_synchronization"),
        *("memory_allocation", "memory_deallocation", "stream_creation"),
    }
)
"""Trace methods that csrc/adapters/cuda/history/trace.hpp implements by hand."""

_WHAT_TO_DO = (
    "This version of pgmo was made for PyTorch 2.6 to 2.15. Upgrade pgmo, or install one of these "
    "versions of PyTorch."
)


def forwarders(include: Path) -> str:
    """Return the C++ methods of the adapter's class that forward requests to `upstream_`.

    The first lines define macros such as `PGMO_HAS_markCaptureBegin`: one for each method written
    by hand, if the installed version has the method.

    Raises:
        AdapterError: if the headers are missing or not understood, a method that takes an address
            is unknown, or the signature of a method written by hand has changed.
    """
    version = _version(include)
    defined: set[str] = set()
    lines = []
    seen: set[tuple[str, bool]] = set()
    for owner in _classes(include, version):
        for method in owner.methods:
            key = (_signature(method), "const" in method.qualifiers)
            if key in seen:  # a derived class, which was read first, overrides it
                continue
            seen.add(key)
            if method.name in _HAND_WRITTEN_NAMES:
                defined.add(_macro(method, version))
            else:
                _refuse_unknown_addresses(method, version)
                lines.append(_definition(owner, method))
    missing = set(map(_suffix, _HAND_WRITTEN)) - _IN_SOME_VERSIONS - defined
    if missing:
        raise AdapterError(
            f"the CUDA allocator of PyTorch {version} has no method "
            f"{', '.join(sorted(missing))} (read from {include}). {_WHAT_TO_DO}"
        )
    macros = [f"#define PGMO_HAS_{name} 1" for name in sorted(defined)]
    return "\n".join(
        [f"// Written by pgmo from the headers of PyTorch {version}.", *macros, *lines, ""]
    )


def trace_methods(include: Path) -> str:
    """Return C++ methods that throw, for all methods of an interpreter except traces.

    Raise `AdapterError` if the header is missing or has changed.
    """
    version, path = _version(include), include / _TRACE_HEADER
    methods = _find_class({path: _read(path, version)}, _TRACE_CLASS, version).methods
    traces = {one.name.removeprefix(_TRACE) for one in methods if one.name.startswith(_TRACE)}
    if traces != _TRACES:
        raise AdapterError(
            f"PyTorch {version} traces {', '.join(sorted(traces ^ _TRACES))} in another way than "
            f"this version of pgmo knows (read from {path}). {_WHAT_TO_DO}"
        )
    return "".join(f"{_refused(one)}\n" for one in methods if not one.name.startswith(_TRACE))


def _refused(method: Method) -> str:
    types = ", ".join(each.type for each in method.parameters)
    qualifiers = "".join(f"{each} " for each in method.qualifiers)
    body = 'TORCH_CHECK(false, "pgmo\'s trace is not an interpreter");'
    return f"{method.returns} {method.name}({types}) {qualifiers}override {{ {body} }}"


def _classes(include: Path, version: str) -> list[ClassText]:
    """Return the allocator's class, followed by its base classes, nearest first."""
    texts = {include / name: _read(include / name, version) for name in _HEADERS}
    classes: list[ClassText] = []
    wanted = [_ROOT]
    while wanted:
        name = wanted.pop(0)
        if name not in [each.name for each in classes]:
            classes.append(_find_class(texts, name, version))
            wanted += classes[-1].bases
    return classes


def _find_class(texts: dict[Path, str], name: str, version: str) -> ClassText:
    for path, text in texts.items():
        try:
            found = read_class(text, name)
        except UnreadableError as error:
            raise AdapterError(
                f"cannot read the class {name} of PyTorch {version} in {path}: {error}. "
                f"{_WHAT_TO_DO}"
            ) from error
        if found is not None:
            return found
    files = ", ".join(map(str, texts))
    raise AdapterError(f"no class {name} of PyTorch {version} in {files}. {_WHAT_TO_DO}")


def _read(path: Path, version: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise AdapterError(
            f"cannot read a C++ header of PyTorch {version}, {path}: {error}. pgmo compiles its "
            "CUDA adapter against these headers; reinstall torch from its official wheel."
        ) from error


def _version(include: Path) -> str:
    """Return PyTorch's version for messages. Only some versions have it in a header."""
    try:
        text = (include.parent / "version.py").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = ""
    found = re.search(r"__version__\s*(?::[^=\n]*)?=\s*['\"]([^'\"]+)['\"]", text)
    return found[1] if found else "of unknown version"


def _signature(method: Method) -> str:
    """Return name and parameter types without namespaces, because some headers omit them."""
    types = (_NAMESPACES.sub("", each.type) for each in method.parameters)
    return f"{method.name}({', '.join(types)})"


def _macro(method: Method, version: str) -> str:
    if _signature(method) not in _HAND_WRITTEN:
        raise AdapterError(
            f"PyTorch {version} has the allocator method {_signature(method)}, whose parameters "
            f"this version of pgmo does not know. {_WHAT_TO_DO}"
        )
    return _suffix(_signature(method))


def _suffix(signature: str) -> str:
    return _OVERLOADS.get(signature, signature.partition("(")[0])


def _refuse_unknown_addresses(method: Method, version: str) -> None:
    addresses = [
        _NAMESPACES.sub("", each.type)
        for each in method.parameters
        if _ADDRESS_TYPE.search(each.type)
        or (_INTEGER_TYPE.match(_NAMESPACES.sub("", each.type)) and _ADDRESS_NAME.search(each.name))
    ]
    if addresses and f"{method.name}({', '.join(addresses)})" not in _REVIEWED:
        raise AdapterError(
            f"PyTorch {version} has the allocator method {_signature(method)} that this version "
            "of pgmo does not know. The method takes an address, which may lie inside pgmo's "
            f"arena, of which PyTorch's own allocator knows nothing. {_WHAT_TO_DO}"
        )


def _definition(owner: ClassText, method: Method) -> str:
    names, declared, passed = [], [], []
    for number, each in enumerate(method.parameters, start=1):
        name = each.name or f"argument{number}"
        names.append(name)
        declared.append(f"{each.type} {name}")
        reference = each.type.endswith("&") and not each.type.endswith("&&")
        passed.append(name if reference else f"std::move({name})")
    qualifiers = "".join(f"{each} " for each in method.qualifiers)
    # Call a base's method through the base, because a derived class may hide its name.
    upstream = "upstream_" if owner.name == _ROOT else f"static_cast<{owner.name}*>(upstream_)"
    result = f"{upstream}->{method.name}({', '.join(passed)})"
    if method.name in _WITH_EXTRA_WORK:
        call = f"{upstream}->{method.name}({', '.join(names)})"
        form = _WITH_EXTRA_WORK[method.name]
        result = form.format(call=call, arguments=", ".join(names), all=", ".join([call, *names]))
    return (
        f"{method.returns} {method.name}({', '.join(declared)}) {qualifiers}override "
        f"{{ return {result}; }}"
    )
