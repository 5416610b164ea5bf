"""CuPy itself on the stub of CUDA's runtime (pgmo/rehearsal), without a GPU.

    from tests.fakecuda.cupy_on_stub import redirect_runtime
    redirect_runtime()
    import cupy

CuPy's wheels contain the runtime as a static library, which a preloaded runtime does not replace.
So the functions of this library are overwritten in memory by jumps to the stub's functions.
"""

import ctypes
import struct
from collections.abc import Iterator
from pathlib import Path

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOL_TABLE, _FUNCTION = 2, 2
"""Constants of the ELF format: type of a symbol table, and of functions in it."""
_EVERYTHING_ALLOWED = 7
"""Flags of `mprotect`: read, write and execute."""
_PAGE = 4096


def redirect_runtime() -> int:
    """Redirect CuPy's runtime to the preloaded stub; return the number of redirected functions.

    Raises:
        RuntimeError: if this CuPy contains no runtime, or the stub is not loaded.
    """
    from cupy_backends.cuda.api import runtime

    path = Path(runtime.__file__).resolve()
    everything = ctypes.CDLL(None)
    base = _base_of(path)
    count = 0
    for name, offset in _functions(path.read_bytes()):
        target = getattr(everything, name, None) if name.startswith("cuda") else None
        if target is not None:
            _jump(base + offset, ctypes.cast(target, ctypes.c_void_p).value or 0)
            count += 1
    if not count:
        raise RuntimeError("CuPy has no runtime of its own, or the stub is not preloaded")
    return count


def _base_of(library: Path) -> int:
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith(str(library)):
            return int(line.partition("-")[0], 16)
    raise RuntimeError(f"{library} is not loaded")


def _functions(elf: bytes) -> Iterator[tuple[str, int]]:
    """Return names and offsets of a shared library's functions, local ones included."""
    (begin,) = struct.unpack_from("<Q", elf, 0x28)
    size, count = struct.unpack_from("<HH", elf, 0x3A)
    sections = [_SECTION.unpack_from(elf, begin + number * size) for number in range(count)]
    for section in sections:
        _, kind, _, _, start, length, names, *_ = section
        if kind != _SYMBOL_TABLE:
            continue
        strings = sections[names][4]
        for name, info, _, defined, value, _ in _SYMBOL.iter_unpack(elf[start : start + length]):
            if info & 0xF == _FUNCTION and defined:
                end = elf.index(b"\0", strings + name)
                yield elf[strings + name : end].decode(), value


def _jump(source: int, target: int) -> None:
    """Write `mov rax, target; jmp rax` to the beginning of a function."""
    libc = ctypes.CDLL(None)
    page = ctypes.c_void_p(source // _PAGE * _PAGE)
    libc.mprotect(page, ctypes.c_size_t(2 * _PAGE), _EVERYTHING_ALLOWED)
    ctypes.memmove(source, b"\x48\xb8" + struct.pack("<Q", target) + b"\xff\xe0", 12)
