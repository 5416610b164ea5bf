"""pgmo: profile-guided static memory allocation for deep-learning training and inference.

    profile  ->  plan  ->  replay

`optimize` does all three. `Profile` and `Plan` are what it records and computes, `plan` computes
one from the other, or a `Packing` of a bare `Problem`, and every error is a `PgmoError`.
`torch_allocator` is for those who exchange PyTorch's allocator themselves, `memory_stats` for those
who watch it.
"""

from pgmo.allocator.memory_stats import memory_stats
from pgmo.allocator.optimize import optimize
from pgmo.allocator.session import Session
from pgmo.allocator.torch_cuda import torch_allocator
from pgmo.errors import (
    AdapterError,
    FileError,
    OptionError,
    PgmoError,
    PlanError,
    ProblemError,
    ProfileError,
    SessionError,
)
from pgmo.packing.plan import Plan
from pgmo.packing.portfolio import plan
from pgmo.packing.problem import Problem
from pgmo.packing.result import Packing
from pgmo.profiler.profile import Profile
from pgmo.version import __version__

__all__ = [
    "AdapterError",
    "FileError",
    "OptionError",
    "Packing",
    "PgmoError",
    "Plan",
    "PlanError",
    "Problem",
    "ProblemError",
    "Profile",
    "ProfileError",
    "Session",
    "SessionError",
    "__version__",
    "memory_stats",
    "optimize",
    "plan",
    "torch_allocator",
]
