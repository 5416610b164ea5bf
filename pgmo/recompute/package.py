"""Makes the package callable: `pgmo.recompute(model, ...)` beside `pgmo.recompute.forget()`."""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pgmo.recompute.apply import recompute as _recompute
    from pgmo.recompute.runtime.compiled import backend
    from pgmo.recompute.runtime.fallback import segments
    from pgmo.recompute.runtime.region import forget

HOMES = {
    "backend": "pgmo.recompute.runtime.compiled",
    "forget": "pgmo.recompute.runtime.region",
    "segments": "pgmo.recompute.runtime.fallback",
}
"""Where the package's names come from; they need torch, and are imported when first used."""


class Package(ModuleType):
    """The type of the module `pgmo.recompute`."""

    if TYPE_CHECKING:
        __call__ = staticmethod(_recompute)
        forget = forget
        backend = staticmethod(backend)
        segments = staticmethod(segments)
    else:

        def __call__(self, *arguments: Any, **options: Any) -> Any:
            """Calls `pgmo.recompute.apply.recompute`."""
            from pgmo.recompute.apply import recompute

            return recompute(*arguments, **options)

        def __getattr__(self, name: str) -> Any:
            if name not in HOMES:
                raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
            found = getattr(importlib.import_module(HOMES[name]), name)
            setattr(self, name, found)
            return found

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *HOMES})


package = sys.modules["pgmo.recompute"]
package.__class__ = Package
recompute = cast("Package", package)
