"""Warnings that point to the responsible line of the user's program.

The number of frames between that line and the warning varies. Python 3.12 has `skip_file_prefixes`,
but no prefix separates the standard library from packages installed inside its folder.
"""

import os
import sys
import warnings
from types import FrameType

_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep

_LIBRARY = os.path.dirname(os.__file__) + os.sep
_INSTALLED = tuple(
    os.path.join(_LIBRARY, name) + os.sep for name in ("site-packages", "dist-packages")
)

_FRAMEWORKS = (
    "torch",
    "lightning",
    "lightning_fabric",
    "pytorch_lightning",
    "transformers",
    "accelerate",
    "cupy",
    "cupyx",
)
"""Packages that call pgmo back, or whose functions pgmo wraps."""

_GENERATED = ("<frozen ", "<eval_with_key>", "<__array_function__")
"""Beginnings of the file names of generated code."""


def warn_user(text: str) -> None:
    """Warn at the innermost line outside of pgmo, the frameworks and the standard library.

    If the user's code has no frame, as on a framework's own thread, warn at the outermost line.
    """
    frame = _of_user(sys._getframe(1))
    # These are the arguments that warnings.warn takes from the frame at a stack level.
    warnings.warn_explicit(
        text,
        UserWarning,
        filename=frame.f_code.co_filename,
        lineno=frame.f_lineno,
        module=frame.f_globals.get("__name__") or "<unknown>",
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def _of_user(frame: FrameType) -> FrameType:
    """Return the innermost frame of the user's code around `frame`, or the outermost frame."""
    machinery = (_OURS, *_GENERATED, *_folders())
    found: FrameType | None = frame
    while found is not None:
        file = found.f_code.co_filename
        is_library = file.startswith(_LIBRARY) and not file.startswith(_INSTALLED)
        if not (is_library or file.startswith(machinery)):
            return found
        frame, found = found, found.f_back
    return frame


def _folders() -> list[str]:
    """Return the folders of the imported frameworks."""
    modules = [sys.modules.get(name) for name in _FRAMEWORKS]
    return [
        os.path.abspath(folder) + os.sep
        for module in modules
        for folder in getattr(module, "__path__", ())
    ]
