"""Runs of scripts without a GPU, with PyTorch's real CUDA build on a stub CUDA runtime.

`rehearse` runs a script and returns the memory that it takes of a card. The script runs in the
process of the package `child`. `values` provides values where the script reads them.
"""

from pgmo.rehearsal.answer import Rehearsal
from pgmo.rehearsal.launch import rehearse

__all__ = ["Rehearsal", "rehearse"]
