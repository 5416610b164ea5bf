"""Runs scripts on a CUDA runtime without a GPU, on which PyTorch's real CUDA build takes memory.

`rehearse` runs one and says what it takes of a card. `build.py` makes the runtime, `control.py`
is what tests can tell it, `child` is the process that a script runs in. `cuda_environment.py`
makes an environment with a CUDA build where torch is another one.
"""

from pgmo.rehearsal.answer import Rehearsal
from pgmo.rehearsal.launch import rehearse

__all__ = ["Rehearsal", "rehearse"]
