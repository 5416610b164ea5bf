"""A compiled adapter: its C functions, and the errors that they return."""

import ctypes
from contextlib import suppress
from pathlib import Path

from pgmo.allocator.build.compile import AdapterSource, adapter_path, compiled_adapter
from pgmo.allocator.build.prebuilt import find_prebuilt
from pgmo.errors import AdapterError

_MESSAGE_BYTES = 4096


def load_adapter(source: AdapterSource) -> "AdapterLibrary":
    """Loads an adapter: the one that comes with pgmo, or else one that is compiled here once.

    Raises:
        AdapterError: when it cannot be compiled or loaded.
    """
    ready = find_prebuilt(source)
    if ready is not None:
        with suppress(AdapterError):  # the system's libraries are too old for it
            return AdapterLibrary(ready, source.what)
    with compiled_adapter(source) as path:
        return AdapterLibrary(path, source.what, adapter_path(source))


class AdapterLibrary:
    """Calls an adapter's functions; those that can fail return 0 or a message.

    Args:
        path: the compiled adapter; it stays loaded for good, for tensors point into it.
        what: what it is for, for people.
        kept: where it lies, if `path` leads there in another way.

    Attributes:
        path: by which the system's loader knows the library, whatever has come to lie there.

    Raises:
        AdapterError: when it cannot be loaded.
    """

    def __init__(self, path: Path, what: str, kept: Path | None = None) -> None:
        self.path = path
        kept = kept or path
        try:
            self._library = ctypes.CDLL(str(path))
        except OSError as error:
            raise AdapterError(
                f"cannot load the adapter for {what}: {str(error).replace(str(path), str(kept))}. "
                f"Delete {kept} to have it compiled again."
            ) from error

    def call(self, function: str, *arguments: object) -> None:
        """Calls a function whose last two arguments are the room for a message.

        Raises:
            AdapterError: with the message, when the function fails.
        """
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        failed = self._library[function](*arguments, message, ctypes.c_size_t(_MESSAGE_BYTES))
        if failed:
            raise AdapterError(message.value.decode(errors="replace"))

    def ask(self, function: str, *arguments: object) -> int:
        """Calls a function that cannot fail."""
        return int(self._library[function](*arguments))

    def pointer(self, function: str, *arguments: object) -> int:
        """Calls a function that cannot fail and returns an address, or null: 0."""
        entry = self._library[function]
        entry.restype = ctypes.c_void_p
        return int(entry(*arguments) or 0)

    def address(self, function: str, *arguments: object) -> int:
        """Calls a function that returns an address, or null and a message.

        Raises:
            AdapterError: with the message, when it returns null.
        """
        entry = self._library[function]
        entry.restype = ctypes.c_void_p
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        address = entry(*arguments, message, ctypes.c_size_t(_MESSAGE_BYTES))
        if address is None:
            raise AdapterError(message.value.decode(errors="replace"))
        return int(address)
