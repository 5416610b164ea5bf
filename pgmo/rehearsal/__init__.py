"""Rehearsals: runs of scripts without a GPU, by PyTorch's CUDA build on a stub CUDA runtime.

`rehearse` runs a script and returns the memory that it would take of a card. The script runs in a
process of the package `child`. Kernels compute nothing, so `values` provides values where the
script reads them.
"""

from pgmo.rehearsal.answer import Rehearsal
from pgmo.rehearsal.launch import rehearse

__all__ = ["Rehearsal", "rehearse"]
