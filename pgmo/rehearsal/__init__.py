"""Rehearsals: runs of scripts without a GPU, by PyTorch's CUDA build on a stub CUDA runtime.

`rehearse` runs a script and returns the memory that the script would take of a card. The package
`child` is the code of the script's process. Kernels compute nothing, so the package `values`
provides the values that the script reads.
"""

from pgmo.rehearsal.answer import Rehearsal
from pgmo.rehearsal.launch import rehearse

__all__ = ["Rehearsal", "rehearse"]
