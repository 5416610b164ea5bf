"""Makes the package callable: `pgmo.fit("train.py", ...)` beside `pgmo.fit.accumulate()`."""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pgmo.fit.call import fit as _fit
    from pgmo.fit.largest import accumulate
    from pgmo.fit.need import Need

HOMES = {
    "Answer": "pgmo.fit.answer",
    "Need": "pgmo.fit.need",
    "accumulate": "pgmo.fit.largest",
}
"""Where the package's names come from."""


class Package(ModuleType):
    """The type of the module `pgmo.fit`."""

    if TYPE_CHECKING:
        __call__ = staticmethod(_fit)
        accumulate = staticmethod(accumulate)
        Need = Need
    else:

        def __call__(self, *arguments: Any, **options: Any) -> Any:
            """Calls `pgmo.fit.call.fit`."""
            from pgmo.fit.call import fit

            return fit(*arguments, **options)

        def __getattr__(self, name: str) -> Any:
            if name not in HOMES:
                raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
            found = getattr(importlib.import_module(HOMES[name]), name)
            setattr(self, name, found)
            return found

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *HOMES})


package = sys.modules["pgmo.fit"]
package.__class__ = Package
fit = cast("Package", package)
