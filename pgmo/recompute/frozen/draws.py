"""Random numbers that Python code draws: they would be drawn once, while a step is captured."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from pgmo.errors import GraphError
from pgmo.recompute.frozen.code import Mention
from pgmo.recompute.frozen.places import line
from pgmo.recompute.frozen.remembered import remember

ADVICE = (
    "A captured step would use those of its capture for ever. Draw them with PyTorch (torch.rand), "
    "which draws anew at each step, or outside of the model and give them as a tensor; a model in "
    "which Python decides by them (if random.random() < 0.5) can use pgmo.recompute.forget"
)


class Draws:
    """Whether the generators of Python and of NumPy were used in the `with` block of `noting`."""

    def __init__(self) -> None:
        self.of: list[str] = []

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Inside, what is drawn is noted; afterwards it was not drawn."""
        python = random.getstate()
        numpy: Any = sys.modules.get("numpy")
        before = None if numpy is None else numpy.random.get_state()
        state = remember(before)
        try:
            yield
        finally:
            if random.getstate() != python:
                random.setstate(python)
                self.of.append("Python")
            if numpy is not None and remember(numpy.random.get_state()) != state:
                numpy.random.set_state(before)
                self.of.append("NumPy")

    def refuse(self, mentions: list[Mention]) -> None:
        """Refuses a forward pass that has drawn.

        Args:
            mentions: global names in its code, to find the line.

        Raises:
            GraphError: it has.
        """
        if not self.of:
            return
        found = (one for one in mentions if _draws(one) in self.of)
        where = next((f", at {line(*one.where)}" for one in found), "")
        raise GraphError(
            f"the forward pass draws random numbers of {' and '.join(self.of)}{where}. {ADVICE}"
        )


def _draws(mention: Mention) -> str | None:
    """Whose numbers a name may draw."""
    value = mention.value
    if isinstance(value, ModuleType):
        name = value.__name__
        if name == "numpy.random" or (name == "numpy" and mention.attribute == "random"):
            return "NumPy"
        return "Python" if name == "random" else None
    owner = getattr(value, "__self__", None)
    if isinstance(owner, random.Random):
        return "Python"
    return "NumPy" if type(owner).__module__.startswith("numpy.random") else None
