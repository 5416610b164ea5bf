"""Writes the methods of PyTorch's interpreter table that a trace of a device never calls.

PyTorch tells one object of the events that a program records and waits for. Its class stands for a
whole interpreter, whose methods differ by version. Ours (csrc/adapters/cuda/history/trace.hpp)
only listens, so all others are written by this module, from the headers of the PyTorch that is
installed, and throw.

Source: `c10/core/impl/PyInterpreter.h` and `GPUTrace.h` of PyTorch 2.6 to 2.15.
"""

from pathlib import Path

from pgmo.allocator.build.virtual_methods import Method, UnreadableError, read_class
from pgmo.errors import AdapterError

_CLASS = "PyInterpreterVTable"
_HEADER = "c10/core/impl/PyInterpreter.h"
_HEARD = "trace_gpu_"
_WRITTEN = frozenset(
    {
        *("event_creation", "event_deletion", "event_record", "event_wait"),
        *("event_synchronization", "stream_synchronization", "device_synchronization"),
        *("memory_allocation", "memory_deallocation", "stream_creation"),
    }
)
"""By hand, in csrc/adapters/cuda/history/trace.hpp."""


def trace_methods(include: Path) -> str:
    """The methods that are not written by hand, in C++, for the public part of the class.

    Args:
        include: PyTorch's include directory (`torch/include`).

    Raises:
        AdapterError: when the header is missing or not understood, or has other traces.
    """
    path = include / _HEADER
    try:
        found = read_class(path.read_text(encoding="utf-8"), _CLASS)
    except (OSError, UnicodeDecodeError, UnreadableError) as error:
        raise AdapterError(
            f"cannot read the class {_CLASS} of PyTorch in {path}: {error}. This version of pgmo "
            "was made for PyTorch 2.6 to 2.15. Upgrade pgmo, or install one of these."
        ) from error
    methods = () if found is None else found.methods
    heard = {one.name.removeprefix(_HEARD) for one in methods if one.name.startswith(_HEARD)}
    if heard != _WRITTEN:
        raise AdapterError(
            f"PyTorch traces {', '.join(sorted(heard ^ _WRITTEN))} in another way than this "
            f"version of pgmo knows (read from {path}). Upgrade pgmo, or install PyTorch 2.6 to "
            "2.15."
        )
    return "\n".join(_refused(one) for one in methods if not one.name.startswith(_HEARD)) + "\n"


def _refused(method: Method) -> str:
    types = ", ".join(each.type for each in method.parameters)
    qualifiers = "".join(f"{each} " for each in method.qualifiers)
    body = 'TORCH_CHECK(false, "pgmo\'s trace is no interpreter");'
    return f"{method.returns} {method.name}({types}) {qualifiers}override {{ {body} }}"
