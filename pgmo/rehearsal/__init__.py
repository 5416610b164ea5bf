"""Runs of scripts without a GPU, with PyTorch's real CUDA build on a stub CUDA runtime.

`rehearse` runs a script and returns the memory that it takes of a card. `build.py` builds the
runtime, `control.py` reads and controls it, `child` is the process of the script.
`cuda_environment.py` makes an environment with a CUDA build of torch if this one has another build.
"""

from pgmo.rehearsal.answer import Rehearsal
from pgmo.rehearsal.launch import rehearse

__all__ = ["Rehearsal", "rehearse"]
