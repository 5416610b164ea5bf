"""Type that makes the package callable: `pgmo.fit("train.py", ...)`, `pgmo.fit.accumulate()`."""

import sys
from typing import TYPE_CHECKING, ClassVar, cast

from pgmo.callable_package import CallablePackage

if TYPE_CHECKING:
    from pgmo.fit.call import fit as _fit
    from pgmo.fit.call import table
    from pgmo.fit.largest import accumulate
    from pgmo.fit.laws.need import Need


class FitPackage(CallablePackage):
    """The type of the module `pgmo.fit`."""

    _calls = ("pgmo.fit.call", "fit")
    _homes: ClassVar = {
        "Answer": "pgmo.fit.answer",
        "Need": "pgmo.fit.laws.need",
        "accumulate": "pgmo.fit.largest",
        "table": "pgmo.fit.call",
    }

    if TYPE_CHECKING:
        __call__ = staticmethod(_fit)
        accumulate = staticmethod(accumulate)
        Need = Need
        table = staticmethod(table)


package = sys.modules["pgmo.fit"]
package.__class__ = FitPackage
fit = cast("FitPackage", package)
