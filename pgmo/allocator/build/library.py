"""Loading of compiled adapters, and calls of their C functions."""

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pgmo.allocator.build.compile import AdapterSource, adapter_path, compiled_adapter
from pgmo.allocator.build.prebuilt import find_prebuilt
from pgmo.errors import AdapterError

_MESSAGE_BYTES = 4096


def load_adapter(source: AdapterSource) -> "AdapterLibrary":
    """Load a prebuilt adapter; without one, compile the adapter if needed and load it.

    Raise `AdapterError` if neither can be loaded.
    """
    ready = find_prebuilt(source)
    if ready is not None:
        with suppress(AdapterError):  # for example, the system's libraries are too old
            return AdapterLibrary(ready, source.what)
    with compiled_adapter(source) as path:
        return AdapterLibrary(path, source.what, adapter_path(source))


class AdapterLibrary:
    """Compiled adapter, which is never unloaded, because tensors point into it.

    Args:
        path: path by which the system's loader knows the library.
        what: framework for messages.
        kept: path of the library that messages name; None to name `path`.
    """

    def __init__(self, path: Path, what: str, kept: Path | None = None) -> None:
        self.path = path
        kept = kept or path
        try:
            self._library = ctypes.CDLL(str(path))
        except OSError as error:
            remedy = f". Delete {kept} to have it compiled again." if os.path.exists(kept) else ""
            reason = str(error).replace(str(path), str(kept))
            raise AdapterError(f"cannot load the adapter for {what}: {reason}{remedy}") from error

    def call(self, function: str, *arguments: object) -> None:
        """Call a function that may fail. If it fails, raise `AdapterError` with its message."""
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        failed = self._library[function](*arguments, message, ctypes.c_size_t(_MESSAGE_BYTES))
        if failed:
            raise AdapterError(message.value.decode(errors="replace"))

    def ask(self, function: str, *arguments: object) -> int:
        """Call a function that cannot fail and return its integer result."""
        return int(self._library[function](*arguments))

    def entry(self, function: str, *types: type) -> Callable[..., int]:
        """Return a function that cannot fail, for frequent calls with arguments of these ctypes.

        This is faster than `ask`, which looks the function up in each call.
        """
        entry = self._library[function]
        entry.argtypes = types
        return entry

    def pointer(self, function: str, *arguments: object) -> int:
        """Call a function that cannot fail; return its result, an address, or 0 for null."""
        entry = self._library[function]
        entry.restype = ctypes.c_void_p
        return int(entry(*arguments) or 0)

    def address(self, function: str, *arguments: object) -> int:
        """Call a function that returns an address; for null, raise `AdapterError`."""
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        address = self.pointer(function, *arguments, message, ctypes.c_size_t(_MESSAGE_BYTES))
        if not address:
            raise AdapterError(message.value.decode(errors="replace"))
        return address
