"""The callable package: `pgmo.recompute(model, ...)`, with `pgmo.recompute.largest(...)`."""

import sys
from typing import TYPE_CHECKING, ClassVar, cast

from pgmo.callable_package import CallablePackage
from pgmo.removed import RECOMPUTE

if TYPE_CHECKING:
    from pgmo.recompute.apply import recompute as _recompute
    from pgmo.recompute.largest_batch import largest
    from pgmo.recompute.runtime.compiled import backend


class RecomputePackage(CallablePackage):
    """Type of the module `pgmo.recompute`, which imports torch at the first use of an attribute."""

    _calls = ("pgmo.recompute.apply", "recompute")
    _removed = RECOMPUTE
    _homes: ClassVar = {
        "backend": "pgmo.recompute.runtime.compiled",
        "largest": "pgmo.recompute.largest_batch",
    }

    if TYPE_CHECKING:
        __call__ = staticmethod(_recompute)
        backend = staticmethod(backend)
        largest = staticmethod(largest)


package = sys.modules["pgmo.recompute"]
package.__class__ = RecomputePackage
recompute = cast("RecomputePackage", package)
