"""pgmo: profile-guided static memory allocation for deep-learning training and inference.

    profile  ->  plan  ->  replay

- `optimize` does all three: it records a `Profile`, computes a `Plan`, and replays it.
- `plan` computes a plan from a profile.
- `fit` predicts whether a job fits on a card.
- `recompute` makes a model's step fit in a budget.
- `wrap` makes each call of a model an iteration, `unwrap` undoes `wrap`, and `session_of` returns
  the model's session.
- `phase` frees the memory that a phase of reinforcement learning does not use.
- `managed` serves requests from unified memory, for models that do not fit on the card.
- `close` closes the open sessions of the program, wherever it has opened them.
- `torch_allocator`, `cupy_allocator` and `cupy_torch_allocator` are for programs that replace a
  framework's allocator themselves.
- `memory_stats` returns the memory use of a device's session. `metrics` returns the session's
  figures for a logger, and `log_metrics` writes them to a file.

Errors of pgmo are subclasses of `PgmoError` (`pgmo.errors`). Names are imported on first use (PEP
562): `import pgmo` and `pgmo --help` load neither numpy nor the native module.
"""

import importlib

from pgmo.errors import BudgetError, PgmoError
from pgmo.version import __version__

TYPE_CHECKING = False  # Importing `typing` takes longer than all other imports here.
if TYPE_CHECKING:
    from pgmo.allocator.adapters.cupy import cupy_allocator
    from pgmo.allocator.adapters.cupy_through_torch import cupy_torch_allocator
    from pgmo.allocator.adapters.torch_allocator import torch_allocator
    from pgmo.allocator.managed.context import managed
    from pgmo.allocator.metrics import log_metrics, memory_stats, metrics
    from pgmo.allocator.optimize import optimize
    from pgmo.allocator.phase import phase
    from pgmo.allocator.session.open_sessions import close
    from pgmo.allocator.session.session import Session
    from pgmo.fit.package import fit
    from pgmo.packing.plan import Plan
    from pgmo.packing.planner import plan
    from pgmo.profiler.profile import Profile
    from pgmo.recompute.package import recompute
    from pgmo.serving.wrap import session_of, unwrap, wrap

__all__ = [
    "BudgetError",
    "PgmoError",
    "Plan",
    "Profile",
    "Session",
    "__version__",
    "close",
    "cupy_allocator",
    "cupy_torch_allocator",
    "fit",
    "log_metrics",
    "managed",
    "memory_stats",
    "metrics",
    "optimize",
    "phase",
    "plan",
    "recompute",
    "session_of",
    "torch_allocator",
    "unwrap",
    "wrap",
]

# Module of each name: the same as in the imports above, which only type checkers read.
_HOMES = {
    "Plan": "pgmo.packing.plan",
    "Profile": "pgmo.profiler.profile",
    "Session": "pgmo.allocator.session.session",
    "close": "pgmo.allocator.session.open_sessions",
    "cupy_allocator": "pgmo.allocator.adapters.cupy",
    "cupy_torch_allocator": "pgmo.allocator.adapters.cupy_through_torch",
    "fit": "pgmo.fit.package",
    "log_metrics": "pgmo.allocator.metrics",
    "managed": "pgmo.allocator.managed.context",
    "memory_stats": "pgmo.allocator.metrics",
    "metrics": "pgmo.allocator.metrics",
    "optimize": "pgmo.allocator.optimize",
    "phase": "pgmo.allocator.phase",
    "plan": "pgmo.packing.planner",
    "recompute": "pgmo.recompute.package",
    "session_of": "pgmo.serving.wrap",
    "torch_allocator": "pgmo.allocator.adapters.torch_allocator",
    "unwrap": "pgmo.serving.wrap",
    "wrap": "pgmo.serving.wrap",
}


if not TYPE_CHECKING:  # With this function, type checkers would accept every name.

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            from pgmo.removed import GONE, NAMES

            if name in GONE:
                raise ImportError(f"pgmo.{name} was removed: {GONE[name]}")
            if name in NAMES:  # `from pgmo import` would drop the text of an AttributeError.
                raise ImportError(f"pgmo.{name} has moved: from {NAMES[name]} import {name}")
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(home), name)
        globals()[name] = found  # Later accesses bypass this function.
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
